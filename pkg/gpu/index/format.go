package index

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/gpu"
)

// The keys of the file. A key of a GPU ends in its index. A key of a MIG device ends in its index
// and the UUID of its GPU, with "_" for "-", because a shell can source the file.
const (
	keyGPU   = "GPU_"
	keyMIG   = "MIG_"
	keyFloor = "MIG_UNUSED_BELOW_"
	// keyChanging has the deadline of an announced change of MIG devices. Until then, the change
	// frees the indices of devices with looseMark.
	keyChanging = "MIG_CHANGING_UNTIL_"
	looseMark   = "@loose"
	// The keys of the names, the choices and the first indices end in the UUID of a GPU or MIG device.
	keyNumber = "NUMBER_"
	keyChoice = "CHOICE_"
	keySince  = "FIRST_INDEX_"
)

// values returns the table as the lines of a file:
//
//	GPU_0=GPU-5d0e1b9a-…@0000:17:00.0
//	MIG_1_GPU_5d0e1b9a_…=MIG-7d1f…@7.0
//	NUMBER_GPU_5d0e1b9a_…=0
func (t table) values() map[string]string {
	out := map[string]string{}
	for at, s := range t.gpus {
		out[keyGPU+strconv.Itoa(at)] = string(s.id) + "@" + s.bus
	}
	for id, at := range t.numbers {
		out[keyNumber+suffixOf(id)] = strconv.Itoa(at)
	}
	for id, at := range t.since {
		out[keySince+suffixOf(id)] = strconv.Itoa(at)
	}
	for id, choice := range t.choices {
		out[keyChoice+suffixOf(id)] = choice
	}
	for id, in := range t.mig {
		suffix := suffixOf(id)
		for at, m := range in.byIndex {
			out[keyMIG+strconv.Itoa(at)+"_"+suffix] = string(m) + "@" + in.places[m]
			if in.loose[m] {
				out[keyMIG+strconv.Itoa(at)+"_"+suffix] += looseMark
			}
		}
		if len(in.loose) > 0 {
			out[keyChanging+suffix] = in.changing.UTC().Format(time.RFC3339)
		}
		if in.floor > 0 {
			out[keyFloor+suffix] = strconv.Itoa(in.floor)
		}
	}
	return out
}

// parse reads the values of a file.
func parse(values map[string]string) (table, error) {
	t := newTable()
	for key, value := range values {
		if err := t.parse(key, value); err != nil {
			return table{}, fmt.Errorf("key %s: %w: remove the file", key, err)
		}
	}
	return t, nil
}

func (t *table) parse(key, value string) (err error) {
	if suffix, ok := strings.CutPrefix(key, keyNumber); ok {
		t.numbers[idOf(suffix)], err = number(value)
		return err
	}
	if suffix, ok := strings.CutPrefix(key, keySince); ok {
		t.since[idOf(suffix)], err = number(value)
		return err
	}
	if suffix, ok := strings.CutPrefix(key, keyChoice); ok {
		t.choices[idOf(suffix)] = value
		return nil
	}
	if suffix, ok := strings.CutPrefix(key, keyFloor); ok {
		in := t.instances(idOf(suffix))
		in.floor, err = number(value)
		return err
	}
	if suffix, ok := strings.CutPrefix(key, keyChanging); ok {
		in := t.instances(idOf(suffix))
		in.changing, err = time.Parse(time.RFC3339, value)
		return err
	}
	if suffix, ok := strings.CutPrefix(key, keyMIG); ok {
		index, suffix, _ := strings.Cut(suffix, "_")
		in := t.instances(idOf(suffix))
		value, loose := strings.CutSuffix(value, looseMark)
		id, place, _ := strings.Cut(value, "@")
		at, err := number(index)
		in.places[gpu.UUID(id)] = place
		if in.byIndex[at] = gpu.UUID(id); loose {
			in.loose[gpu.UUID(id)] = true
		}
		return err
	}
	index, ok := strings.CutPrefix(key, keyGPU)
	if !ok {
		return nil // of a later release
	}
	at, err := number(index)
	id, bus, _ := strings.Cut(value, "@")
	if id != "" && !gpu.UUID(id).Valid() {
		return fmt.Errorf("%q is not a UUID", id)
	}
	t.gpus[at] = slot{id: gpu.UUID(id), bus: bus}
	return err
}

// suffixOf returns a UUID as the end of a key.
func suffixOf(id gpu.UUID) string { return strings.ReplaceAll(string(id), "-", "_") }

// idOf returns the UUID at the end of a key.
func idOf(suffix string) gpu.UUID { return gpu.UUID(strings.ReplaceAll(suffix, "_", "-")) }

// instances returns the entry of a GPU. It adds the entry if it is missing.
func (t *table) instances(id gpu.UUID) *instances {
	if t.mig[id] == nil {
		t.mig[id] = &instances{byIndex: map[int]gpu.UUID{}, places: map[gpu.UUID]string{}, loose: map[gpu.UUID]bool{}}
	}
	return t.mig[id]
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not an index", text)
	}
	return n, nil
}

// equal reports whether two tables have the same entries.
func (t table) equal(o table) bool { return maps.Equal(t.values(), o.values()) }

// clone returns a copy that shares nothing with t.
func (t table) clone() table {
	out := newTable()
	maps.Copy(out.gpus, t.gpus)
	maps.Copy(out.numbers, t.numbers)
	maps.Copy(out.choices, t.choices)
	maps.Copy(out.since, t.since)
	for id, in := range t.mig {
		to := out.instances(id)
		maps.Copy(to.byIndex, in.byIndex)
		maps.Copy(to.places, in.places)
		maps.Copy(to.loose, in.loose)
		to.floor, to.changing = in.floor, in.changing
	}
	return out
}
