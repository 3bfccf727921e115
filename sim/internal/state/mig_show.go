package state

// #include <stdlib.h>
// #include "simstate.h"
import "C"

import (
	"fmt"
	"math"
	"time"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

// MIG returns the MIG state of a GPU. It returns ErrIndivisible if the GPU does not support MIG.
func (s *State) MIG(slot Slot) (MIG, error) {
	ref, board, err := s.divisible(slot)
	if err != nil {
		return MIG{}, err
	}
	return s.readMIG(ref.slot, board), nil
}

// mig returns the MIG state of a GPU, or nil if it does not support MIG.
func (s *State) mig(gpu *C.struct_sim_gpu) *MIG {
	board := C.sim_board(s.sim, gpu)
	if board == nil {
		return nil
	}
	mig := s.readMIG(gpu.minor, board)
	return &mig
}

func (s *State) readMIG(slot C.uint32_t, board *C.struct_sim_board) MIG {
	var mig C.struct_sim_mig
	C.sim_read_mig(s.sim, slot, &mig)
	out := MIG{Enabled: mig.mode != 0, Pending: mig.pending != 0, GPUInstances: []GPUInstance{}}
	for i := range mig.gis {
		gi := &mig.gi[i]
		g := describeGI(board, slot, gi)
		for index := range mig.cis {
			if ci := &mig.ci[index]; ci.gi == gi.id {
				c := describeCI(board, gi, ci)
				c.Index, c.Minor = int(index), int(C.sim_ci_minor(slot, gi.id, ci.id))
				g.ComputeInstances = append(g.ComputeInstances, c)
			}
		}
		out.GPUInstances = append(out.GPUInstances, g)
	}
	return out
}

// describeGI describes a GPU instance without its compute instances.
func describeGI(board *C.struct_sim_board, gpu C.uint32_t, gi *C.struct_sim_gi) GPUInstance {
	return GPUInstance{
		ID: int(gi.id), Profile: getString(C.sim_gi_profile(board, gi.profile).name[:]),
		Start: int(gi.start), Size: int(gi.size), Minor: int(C.sim_gi_minor(gpu, gi.id)),
		ComputeInstances: []ComputeInstance{}, generation: uint64(gi.generation), Values: activity(gi),
	}
}

// activity returns the activity of a GPU instance, by the names of SetInstanceField.
func activity(gi *C.struct_sim_gi) map[string]uint64 {
	var values map[string]uint64
	for i, name := range activities() {
		if gi.active[i] == 0 {
			continue
		}
		if values == nil {
			values = make(map[string]uint64)
		}
		values[name] = uint64(gi.active[i])
	}
	return values
}

// describeCI describes a compute instance without its index and minor.
func describeCI(board *C.struct_sim_board, gi *C.struct_sim_gi, ci *C.struct_sim_ci) ComputeInstance {
	var kind C.struct_sim_ci_profile
	C.sim_ci_profile(board, C.sim_gi_profile(board, gi.profile), ci.profile, &kind)
	return ComputeInstance{
		ID: int(ci.id), UUID: getString(ci.uuid[:]), Profile: getString(kind.name[:]),
		Start: int(ci.start), Size: int(ci.size), generation: uint64(ci.generation),
	}
}

// compute returns a compute instance. It may already be destroyed.
func (m MIG) compute(generation uint64) (ComputeInstance, error) {
	for _, g := range m.GPUInstances {
		for _, c := range g.ComputeInstances {
			if c.generation == generation {
				return c, nil
			}
		}
	}
	return ComputeInstance{}, fmt.Errorf("%w: it was destroyed as soon as it was made", ErrNoInstance)
}

// ShowAt sets the folders of a node's /proc and /dev. From now on, each change of instances updates
// the kernel's files in these folders. If dev is empty, no device nodes are made.
func (s *State) ShowAt(proc, dev string) error {
	p, d := C.CString(proc), C.CString(dev)
	defer C.free(unsafe.Pointer(p))
	defer C.free(unsafe.Pointer(d))
	if C.sim_show_at(s.sim, p, d) != 0 {
		return fmt.Errorf("show instances in %s and %s: no memory left", proc, dev)
	}
	return nil
}

// ShowInstances updates the kernel's files of the instances of all GPUs from the state.
func (s *State) ShowInstances() error {
	return s.update(func() error {
		for slot := range C.uint32_t(MaxGPUs) {
			if code, errno := C.sim_show(s.sim, slot); code != 0 {
				return fmt.Errorf("show the instances of slot %d in procfs and /dev: %w", slot, errno)
			}
		}
		return nil
	})
}

// Follow records that ShowInstances was called after the event with this number. From then on, each
// change of instances waits for such a record.
func (s *State) Follow(number uint64) { C.sim_follow(s.sim, C.uint64_t(number)) }

// Unfollow ends Follow: changes of instances do not wait any more.
func (s *State) Unfollow() { C.sim_follow(s.sim, math.MaxUint64) }

// WaitEvent waits until the number of events is larger than seen, or until the limit has passed. It
// returns the number.
func (s *State) WaitEvent(seen uint64, limit time.Duration) uint64 {
	C.sim_wait_event(s.sim, C.uint64_t(seen), C.sim_now_ns()+C.int64_t(limit.Nanoseconds()))
	return uint64(C.sim_posted(s.sim))
}

// Wake makes WaitEvent return in all processes: it posts an event that NVML does not show.
func (s *State) Wake() error {
	return s.update(func() error {
		C.sim_post(s.sim, &C.struct_sim_event{kind: C.SIM_EVENT_DRIVER})
		return nil
	})
}

// Current reports whether the path of the state still leads to this file, and not to the file of a node that
// was created later.
func (s *State) Current() bool {
	path := C.CString(s.path)
	defer C.free(unsafe.Pointer(path))
	return bool(C.sim_same_file(s.sim, path))
}
