package state

// #include <stdlib.h>
// #include "simstate.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// MIG returns the Multi-Instance state of a GPU. ErrIndivisible: it has none.
func (s *State) MIG(slot Slot) (MIG, error) {
	gpu, err := s.gpu(slot)
	if err != nil {
		return MIG{}, err
	}
	if mig := s.mig(&gpu); mig != nil {
		return *mig, nil
	}
	return MIG{}, fmt.Errorf("GPU of model %s in slot %d: %w", getString(gpu.model[:]), slot, ErrIndivisible)
}

// mig describes the Multi-Instance state of a GPU, nil if it has none.
func (s *State) mig(gpu *C.struct_sim_gpu) *MIG {
	board := C.sim_board(&gpu.model[0])
	if board == nil {
		return nil
	}
	var mig C.struct_sim_mig
	C.sim_read_mig(s.sim, gpu.minor, &mig)
	out := &MIG{Enabled: mig.mode != 0, Pending: mig.pending != 0, GPUInstances: []GPUInstance{}}
	for i := range mig.gis {
		gi := &mig.gi[i]
		profile := C.sim_gi_profile(board, gi.profile)
		g := GPUInstance{
			ID: int(gi.id), Profile: C.GoString(profile.name), Start: int(gi.start), Size: int(gi.size),
			Minor:            int(C.sim_gi_minor(gpu.minor, gi.id)),
			ComputeInstances: []ComputeInstance{},
			profile:          uint32(gi.profile), generation: uint64(gi.generation),
		}
		for index := range mig.cis {
			ci := &mig.ci[index]
			if ci.gi != gi.id {
				continue
			}
			var kind C.struct_sim_ci_profile
			C.sim_ci_profile(board, profile, ci.profile, &kind)
			g.ComputeInstances = append(g.ComputeInstances, ComputeInstance{
				ID: int(ci.id), Index: int(index), UUID: getString(ci.uuid[:]), Profile: getString(kind.name[:]),
				Start: int(ci.start), Size: int(ci.size),
				Minor:      int(C.sim_ci_minor(gpu.minor, gi.id, ci.id)),
				generation: uint64(ci.generation),
			})
		}
		out.GPUInstances = append(out.GPUInstances, g)
	}
	return out
}

// GPUInstance describes the GPU instance of a number.
func (s *State) GPUInstance(slot Slot, id int) (GPUInstance, error) {
	mig, err := s.MIG(slot)
	if err != nil {
		return GPUInstance{}, err
	}
	for _, gi := range mig.GPUInstances {
		if gi.ID == id {
			return gi, nil
		}
	}
	return GPUInstance{}, fmt.Errorf("GPU instance %d of slot %d: %w", id, slot, ErrNoInstance)
}

// compute describes a compute instance by the numbers of both instances.
func (m MIG) compute(gi, ci int) (ComputeInstance, error) {
	for _, g := range m.GPUInstances {
		for _, c := range g.ComputeInstances {
			if g.ID == gi && c.ID == ci {
				return c, nil
			}
		}
	}
	return ComputeInstance{}, fmt.Errorf("compute instance %d of GPU instance %d: %w", ci, gi, ErrNoInstance)
}

// ShowAt says where what the kernel shows of instances is written, from now on
// and with every change: the folders of a node's /proc and /dev.
func (s *State) ShowAt(proc, dev string) error {
	p, d := C.CString(proc), C.CString(dev)
	defer C.free(unsafe.Pointer(p))
	defer C.free(unsafe.Pointer(d))
	if C.sim_show_at(s.sim, p, d) != 0 {
		return fmt.Errorf("show instances in %s and %s: no memory left", proc, dev)
	}
	return nil
}

// ShowInstances brings what the kernel shows of the instances of all GPUs in
// line with the state.
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
