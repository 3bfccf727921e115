package state

// #include "simstate.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type telemetry = C.struct_sim_telemetry

// field is a settable value of a GPU. Its minimum is 0, or -1 for the NUMA node.
type field struct {
	name string
	// max returns the maximum.
	max func(*telemetry) uint64
	// supported reports whether the product has the field. nil means that all products have it.
	supported func(*telemetry) bool
	get       func(*telemetry) uint64
	set       func(*telemetry, uint64)
}

// present reports whether a GPU has the field.
func (f field) present(t *telemetry) bool { return f.supported == nil || f.supported(t) }

// parse parses a value of the field.
func (f field) parse(t *telemetry, value string) (uint64, error) {
	if !f.present(t) {
		return 0, fmt.Errorf("%s has none", getString(t.gpu.model[:]))
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if highest := f.max(t); err != nil || n > highest {
		return 0, fmt.Errorf("want a number from 0 to %d", highest)
	}
	return n, nil
}

const numaField = "numa-node"

// Fields returns the names that SetField accepts, sorted.
func Fields() []string {
	names := []string{recoveryField, fabricField, limitField, computeField}
	for _, f := range fields() {
		names = append(names, f.name)
	}
	for _, f := range linkFields() {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// SetField sets a value of a GPU. Units are °C for temperatures, percent for utilization-… and
// …-active, bytes for memory, milliwatts for power, MHz for clocks, and bytes per second for
// traffic. A counter is set to its total. nvlinks is the number of links that are up. numa-node is
// -1 for a GPU without one. recovery is a value of Recovery or "none". fabric has the form of
// SetFabric. clock-limits has names separated by commas. compute-mode has the name of a ComputeMode.
// Errors of a link are set as LINK:NUMBER.
func (s *State) SetField(slot Slot, name, value string) error {
	switch name {
	case recoveryField:
		return s.SetRecovery(slot, Recovery(value))
	case fabricField:
		return s.SetFabric(slot, value)
	}
	err := s.updateTelemetry(slot, func(t *telemetry) error { return setField(t, name, value) })
	if err != nil {
		return fmt.Errorf("set %s of the GPU in slot %d to %q: %w", name, slot, value, err)
	}
	return nil
}

func setField(t *telemetry, name, value string) error {
	named := func(f field) bool { return f.name == name }
	if list := fields(); slices.ContainsFunc(list, named) {
		f := list[slices.IndexFunc(list, named)]
		if name == numaField && value == "-1" {
			t.gpu.numa_node = -1
			return nil
		}
		n, err := f.parse(t, value)
		if err == nil {
			f.set(t, n)
		}
		return err
	}
	switch name {
	case limitField:
		return setLimits(t, value)
	case computeField:
		return setComputeMode(t, value)
	}
	list := linkFields()
	i := slices.IndexFunc(list, func(f linkField) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("unknown field; want one of %s", strings.Join(Fields(), ", "))
	}
	return list[i].set(t, value)
}

// SetInstanceField sets an activity of a GPU instance, in percent. It has the name of a field of a
// GPU.
func (s *State) SetInstanceField(slot Slot, gi int, name, value string) error {
	err := s.updateTelemetry(slot, func(t *telemetry) error {
		i := slices.Index(activities(), name)
		if i < 0 {
			return fmt.Errorf("GPU instances have no such field; want one of %s", strings.Join(activities(), ", "))
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || n > percent {
			return fmt.Errorf("want a number from 0 to %d", percent)
		}
		for at := range t.mig.gis {
			if int(t.mig.gi[at].id) == gi {
				t.mig.gi[at].active[i] = C.uint8_t(n)
				return nil
			}
		}
		return fmt.Errorf("%w; see \"gpu-sim mig list\"", ErrNoInstance)
	})
	if err != nil {
		return fmt.Errorf("set %s of GPU instance %d of the GPU in slot %d to %q: %w", name, gi, slot, value, err)
	}
	return nil
}

// values returns the values of all numeric fields.
func (s *State) values(slot Slot) map[string]uint64 {
	var t telemetry
	C.sim_read_telemetry(s.sim, C.uint32_t(slot), &t)
	values := make(map[string]uint64)
	for _, f := range fields() {
		if f.name != numaField && f.present(&t) {
			values[f.name] = f.get(&t)
		}
	}
	if t.gpu.links > 0 {
		for _, f := range linkFields() {
			for link := range t.gpu.links {
				values[f.name] += uint64(t.counters.link_error[link][f.kind])
			}
		}
	}
	return values
}

// linkField is an error counter of each NVLink.
type linkField struct {
	name string
	kind int // nvmlNvLinkErrorCounter_t
}

func linkFields() []linkField {
	var list []linkField
	for kind, name := range []string{"replay", "recovery", "crc-flit", "crc-data", "ecc"} {
		list = append(list, linkField{"nvlink-" + name + "-errors", kind})
	}
	return list
}

// set parses LINK:NUMBER. A plain number is for link 0.
func (f linkField) set(t *telemetry, value string) error {
	if t.gpu.links == 0 {
		return fmt.Errorf("%s has none", getString(t.gpu.model[:]))
	}
	link, count, ok := strings.Cut(value, ":")
	if !ok {
		link, count = "0", value
	}
	at, err := strconv.ParseUint(link, 10, 32)
	n, err2 := strconv.ParseUint(count, 10, 64)
	if errors.Join(err, err2) != nil || at >= uint64(t.gpu.links) {
		return fmt.Errorf("want a number, or LINK:NUMBER with a link from 0 to %d", t.gpu.links-1)
	}
	t.counters.link_error[at][f.kind] = C.uint64_t(n)
	return nil
}
