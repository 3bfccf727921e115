package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Activities returns the names of the fields in percent, which GPUs and GPU instances have.
func Activities() []string { return activities() }

// Limits has the most that a load can use of a GPU.
type Limits struct {
	// Clocks has the highest clocks in MHz, by the names of SetField.
	Clocks map[string]uint64
	// Memory is the memory in bytes that processes can use. Slices is the number of compute slices,
	// or 0 if the product does not support MIG.
	Memory uint64
	Slices int
	// Instances has the compute slices and the memory of each GPU instance, by ID.
	Instances map[int]InstanceLimits
}

// InstanceLimits has the most that a load can use of a GPU instance.
type InstanceLimits struct {
	Slices int
	Memory uint64
}

// Limits returns the limits of a GPU and its GPU instances.
func (s *State) Limits(slot Slot) (Limits, error) {
	gpu, err := s.gpu(slot)
	if err != nil {
		return Limits{}, err
	}
	out := Limits{Clocks: make(map[string]uint64), Memory: uint64(gpu.memory_total - gpu.memory_reserved), Instances: make(map[int]InstanceLimits)}
	for i, name := range clockNames() {
		out.Clocks[name] = uint64(gpu.clock_max[i])
	}
	board := C.sim_board(s.sim, &gpu)
	if board == nil {
		return out, nil
	}
	out.Slices = int(board.compute_slices)
	var mig C.struct_sim_mig
	C.sim_read_mig(s.sim, gpu.minor, &mig)
	for i := range mig.gis {
		profile := C.sim_gi_profile(board, mig.gi[i].profile)
		out.Instances[int(mig.gi[i].id)] = InstanceLimits{Slices: int(profile.slices), Memory: uint64(profile.memory_mib) << 20}
	}
	return out, nil
}

// SetValues sets several numeric fields of a GPU, and of its GPU instances by their IDs, in one
// change. The names and units are those of SetField.
func (s *State) SetValues(slot Slot, values map[string]uint64, instances map[int]map[string]uint64) error {
	err := s.updateTelemetry(slot, func(t *telemetry) error {
		for _, f := range fields() {
			v, ok := values[f.name]
			if !ok {
				continue
			}
			n, err := f.parse(t, strconv.FormatUint(v, 10))
			if err != nil {
				return fmt.Errorf("%s %d: %w", f.name, v, err)
			}
			f.set(t, n)
		}
		for _, gi := range slices.Sorted(maps.Keys(instances)) {
			if err := setActivities(t, gi, instances[gi]); err != nil {
				return fmt.Errorf("GPU instance %d: %w", gi, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set values of the GPU in slot %d: %w", slot, err)
	}
	return nil
}

func setActivities(t *telemetry, gi int, values map[string]uint64) error {
	for at := range t.mig.gis {
		if int(t.mig.gi[at].id) != gi {
			continue
		}
		for i, name := range activities() {
			if v, ok := values[name]; ok {
				t.mig.gi[at].active[i] = C.uint8_t(min(v, percent))
			}
		}
		return nil
	}
	return ErrNoInstance
}
