package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

const (
	keyXID = "XID_"
	// wildcard stands for gpu.NoInstance.
	wildcard = "ALL"
	// mostIncidents is the number of incidents that a file can have. More than 256 lines could
	// exceed the size of a file of package contract.
	mostIncidents = 256
)

// entry is an incident in the file.
type entry struct {
	health.Incident
	// energy is the energy counter of the GPU in mJ after the last XID, nil if it is not known.
	energy *uint64
}

// table is the content of the file.
type table map[health.Key]entry

// clock converts between the times of a process and the times in the file, which are milliseconds
// since the boot. All processes of the node have the same time since the boot.
type clock struct {
	now  time.Time
	boot time.Duration
}

func newClock() clock { return clock{now: time.Now(), boot: contract.Boottime()} }

func (c clock) time(ms uint64) time.Time {
	boot := c.boot
	if ms < uint64(boot.Milliseconds()) { //nolint:gosec // the time since the boot is positive
		boot = time.Duration(ms) * time.Millisecond //nolint:gosec // it is below the time since the boot
	}
	return c.now.Add(boot - c.boot)
}

func (c clock) millis(t time.Time) int64 { return max(0, (c.boot + t.Sub(c.now)).Milliseconds()) }

// values returns the table as the lines of a file:
//
//	XID_95_ALL_ALL_GPU_5d0e1b9a_…=last:81000,first:80000,asked,energy:92000123
//	XID_95_7_0_GPU_5d0e1b9a_…=last:81000,first:81000,device:MIG-7d1f…
//
// The numbers after the XID are the GPU instance and the compute instance. A key has "_" for "-",
// because a shell can source the file.
func (t table) values(c clock) map[string]string {
	out := map[string]string{}
	for k, e := range t {
		fields := []string{fmt.Sprintf("last:%d", c.millis(e.Last)), fmt.Sprintf("first:%d", c.millis(e.First))}
		if e.Away {
			fields = append(fields, "away")
		}
		if e.Asked {
			fields = append(fields, "asked")
		}
		if e.energy != nil {
			fields = append(fields, fmt.Sprintf("energy:%d", *e.energy))
		}
		if e.Device != "" {
			fields = append(fields, "device:"+string(e.Device))
		}
		out[nameOf(k)] = strings.Join(fields, ",")
	}
	return out
}

func nameOf(k health.Key) string {
	number := func(n uint32) string {
		if n == gpu.NoInstance {
			return wildcard
		}
		return strconv.FormatUint(uint64(n), 10)
	}
	return fmt.Sprintf("%s%d_%s_%s_%s", keyXID, k.XID, number(k.GPUInstance), number(k.ComputeInstance), strings.ReplaceAll(string(k.GPU), "-", "_"))
}

// parse reads the values of a file. It leaves out lines that it does not understand, and returns an
// error that names one of them.
func parse(values map[string]string, c clock) (t table, err error) {
	t = table{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !strings.HasPrefix(name, keyXID) {
			continue // of a later release
		}
		if len(t) == mostIncidents {
			return t, fmt.Errorf("more than %d XIDs", mostIncidents)
		}
		e, bad := parseLine(name, values[name], c)
		if bad != nil {
			err = fmt.Errorf("key %s: %w", name, bad)
			continue
		}
		t[e.Key] = e
	}
	return t, err
}

func parseLine(name, value string, c clock) (e entry, err error) {
	parts := strings.SplitN(strings.TrimPrefix(name, keyXID), "_", 4) //nolint:mnd // see values
	if len(parts) < 4 {                                               //nolint:mnd // see values
		return e, errors.New("not an XID, two instances and a UUID")
	}
	var bad [3]error
	e.XID, bad[0] = strconv.ParseUint(parts[0], 10, 64)
	e.GPUInstance, bad[1] = instance(parts[1])
	e.ComputeInstance, bad[2] = instance(parts[2])
	e.GPU = gpu.UUID(strings.ReplaceAll(parts[3], "_", "-"))
	if err := errors.Join(bad[:]...); err != nil {
		return e, err
	}
	if !e.GPU.Valid() || e.GPUInstance == gpu.NoInstance && e.ComputeInstance != gpu.NoInstance {
		return e, errors.New("not a GPU or an instance")
	}
	for field := range strings.SplitSeq(value, ",") {
		if err := e.parseField(field, c); err != nil {
			return e, err
		}
	}
	if e.Last.IsZero() {
		return e, errors.New("no time")
	}
	if e.First.IsZero() || e.First.After(e.Last) {
		e.First = e.Last
	}
	return e, nil
}

func (e *entry) parseField(field string, c clock) error {
	name, text, _ := strings.Cut(field, ":")
	number, err := strconv.ParseUint(text, 10, 64)
	switch name {
	case "last":
		e.Last = c.time(number)
	case "first":
		e.First = c.time(number)
	case "energy":
		e.energy = &number
	case "device":
		if e.Device = gpu.UUID(text); !e.Device.Valid() {
			return fmt.Errorf("%q is not a UUID", text)
		}
		return nil
	case "away":
		e.Away, err = true, nil
	case "asked":
		e.Asked, err = true, nil
	default:
		err = nil // of a later release
	}
	return err
}

func instance(text string) (uint32, error) {
	if text == wildcard {
		return gpu.NoInstance, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err
}
