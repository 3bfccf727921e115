package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is a value of a GPU that can be set.
type field struct {
	name string
	// max is the highest value; the lowest is 0, or -1 for the NUMA node.
	max func(*C.struct_sim_gpu) uint64
	set func(*C.struct_sim_gpu, uint64)
}

func limit(n uint64) func(*C.struct_sim_gpu) uint64 {
	return func(*C.struct_sim_gpu) uint64 { return n }
}

// fields lists what SetField accepts.
func fields() []field {
	const word = 1<<32 - 1
	list := []field{
		{"temperature", limit(200), func(g *C.struct_sim_gpu, v uint64) { g.temperature = C.uint32_t(v) }},
		{"utilization-gpu", limit(100), func(g *C.struct_sim_gpu, v uint64) { g.util_gpu = C.uint32_t(v) }},
		{"utilization-memory", limit(100), func(g *C.struct_sim_gpu, v uint64) { g.util_memory = C.uint32_t(v) }},
		{"memory-used", func(g *C.struct_sim_gpu) uint64 { return uint64(g.memory_total - g.memory_reserved) }, func(g *C.struct_sim_gpu, v uint64) { g.memory_used = C.uint64_t(v) }},
		{"power", limit(word), func(g *C.struct_sim_gpu, v uint64) { g.power = C.uint32_t(v) }},
		{"persistence", limit(1), func(g *C.struct_sim_gpu, v uint64) { g.persistence = C.uint32_t(v) }},
		{"nvlinks", func(g *C.struct_sim_gpu) uint64 { return uint64(g.links) }, setNVLinks},
		{"remap-pending", limit(1), func(g *C.struct_sim_gpu, v uint64) { g.remap_pending = C.uint32_t(v) }},
		{"numa-node", limit(1023), func(g *C.struct_sim_gpu, v uint64) { g.numa_node = C.int32_t(v) }},
	}
	for i, name := range []string{"clock-graphics", "clock-sm", "clock-memory", "clock-video"} {
		list = append(list, field{name, limit(word), func(g *C.struct_sim_gpu, v uint64) { g.clock[i] = C.uint32_t(v) }})
	}
	return list
}

// setNVLinks leaves the first n links up.
func setNVLinks(g *C.struct_sim_gpu, n uint64) {
	for i := range uint64(g.links) {
		g.link[i].up = 0
		if i < n {
			g.link[i].up = 1
		}
	}
}

// Fields returns the names that SetField accepts, sorted.
func Fields() []string {
	names := []string{recoveryField, fabricField}
	for _, f := range fields() {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// SetField sets a value of a GPU: temperatures in °C, utilisation in percent,
// memory in bytes, power in milliwatts, clocks in MHz, nvlinks as the number
// that is up, -1 as the numa-node of a GPU that has none, recovery as a value of
// Recovery or "none", and fabric as SetFabric takes it.
func (s *State) SetField(slot Slot, name, value string) error {
	switch name {
	case recoveryField:
		return s.SetRecovery(slot, Recovery(value))
	case fabricField:
		return s.SetFabric(slot, value)
	}
	list := fields()
	i := slices.IndexFunc(list, func(f field) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("set %s: unknown field; want one of %s", name, strings.Join(Fields(), ", "))
	}
	return s.updateGPU(slot, func(gpu *C.struct_sim_gpu) error {
		if name == "numa-node" && value == "-1" {
			gpu.numa_node = -1
			return nil
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if highest := list[i].max(gpu); err != nil || n > highest {
			return fmt.Errorf("set %s of the GPU in slot %d to %q: want a number from 0 to %d", name, slot, value, highest)
		}
		list[i].set(gpu, n)
		return nil
	})
}
