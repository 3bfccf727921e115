package state

// #include "simstate.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
)

// Process is a process that uses a GPU or one of its MIG devices.
type Process struct {
	PID int `json:"pid"`
	// GPUInstance and ComputeInstance are IDs, or -1 on a GPU without MIG.
	GPUInstance     int    `json:"gpuInstance"`
	ComputeInstance int    `json:"computeInstance"`
	MemoryBytes     uint64 `json:"memoryBytes"`
	Use             Use    `json:"use,omitzero"`
	// MPS is set for a client of MPS.
	MPS bool `json:"mps,omitzero"`
}

// Use is the share of a GPU that a process uses, in percent.
type Use struct {
	SM      uint32 `json:"sm"`
	Memory  uint32 `json:"memory"`
	Encoder uint32 `json:"encoder"`
	Decoder uint32 `json:"decoder"`
	JPEG    uint32 `json:"jpeg"`
	OFA     uint32 `json:"ofa"`
}

// array returns the values in the order of enum sim_use.
func (u Use) array() [C.SIM_USES]C.uint32_t {
	return [C.SIM_USES]C.uint32_t{
		C.uint32_t(u.SM), C.uint32_t(u.Memory), C.uint32_t(u.Encoder), C.uint32_t(u.Decoder), C.uint32_t(u.JPEG), C.uint32_t(u.OFA),
	}
}

// validate rejects values above 100 percent.
func (u Use) validate() error {
	for _, w := range u.array() {
		if w > percent {
			return fmt.Errorf("use of %d %%: want at most %d", w, percent)
		}
	}
	return nil
}

func useOf(w [C.SIM_USES]C.uint32_t) Use {
	return Use{uint32(w[0]), uint32(w[1]), uint32(w[2]), uint32(w[3]), uint32(w[4]), uint32(w[5])}
}

// WholeGPU is the instance of a Process that uses the whole GPU.
const WholeGPU = -1

// ErrNoProcess means that no such process uses a GPU.
var ErrNoProcess = errors.New("no such process")

// PutProcess simulates a process that uses a GPU until DropProcess removes it. It also changes a
// simulated process.
func (s *State) PutProcess(slot Slot, p Process) error {
	ref, err := s.ref(slot)
	if err == nil {
		err = s.putEntry(p, C.struct_sim_proc{pid: C.uint32_t(p.PID), slot: ref.slot, generation: ref.generation})
	}
	if err != nil {
		return fmt.Errorf("put process %d on slot %d: %w", p.PID, slot, err)
	}
	return nil
}

// AttachProcess makes a running process use a GPU until the process ends. A process with read-only
// access to the state can attach itself.
func (s *State) AttachProcess(slot Slot, p Process) error {
	ref, err := s.ref(slot)
	if err == nil {
		var entry C.struct_sim_proc
		if C.sim_proc_of(ref, C.uint32_t(p.PID), &entry) {
			err = s.putEntry(p, entry)
		} else {
			err = fmt.Errorf("%w runs here", ErrNoProcess)
		}
	}
	if err != nil {
		return fmt.Errorf("attach process %d to slot %d: %w", p.PID, slot, err)
	}
	return nil
}

func (s *State) putEntry(p Process, entry C.struct_sim_proc) error {
	if err := p.Use.validate(); err != nil {
		return err
	}
	entry.gi, entry.ci = instanceWord(p.GPUInstance), instanceWord(p.ComputeInstance)
	entry.memory = C.uint64_t(p.MemoryBytes)
	if p.MPS {
		entry.mps = 1
	}
	err := statusError(C.sim_put_proc(s.sim, &entry))
	if errors.Is(err, ErrNoRoom) {
		return fmt.Errorf("%w: the table holds %d processes; end some", err, int(C.SIM_MAX_PROCS))
	}
	if err != nil || p.Use == (Use{}) {
		return err
	}
	return s.setUse(&entry, p.Use)
}

func (s *State) setUse(entry *C.struct_sim_proc, use Use) error {
	if err := use.validate(); err != nil {
		return err
	}
	words := use.array()
	return statusError(C.sim_use_proc(s.sim, entry, &words[0]))
}

// UseProcess changes the use of a GPU by a process, on all its instances.
func (s *State) UseProcess(slot Slot, pid int, use Use) error {
	ref, err := s.ref(slot)
	if err != nil {
		return fmt.Errorf("use of process %d: %w", pid, err)
	}
	err = ErrNoProcess
	for _, entry := range s.entries(ref) {
		if int(entry.pid) != pid {
			continue
		}
		if err = s.setUse(&entry, use); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("use of process %d in slot %d: %w", pid, slot, err)
	}
	return nil
}

// DropProcess removes a process from a GPU and all its instances. A running process continues, but
// no longer uses the GPU.
func (s *State) DropProcess(slot Slot, pid int) error {
	ref, err := s.ref(slot)
	if err != nil {
		return fmt.Errorf("drop process %d: %w", pid, err)
	}
	err = ErrNoProcess
	for _, entry := range s.entries(ref) {
		if int(entry.pid) != pid {
			continue
		}
		if err = statusError(C.sim_drop_proc(s.sim, &entry)); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("drop process %d of slot %d: %w", pid, slot, err)
	}
	return nil
}

func instanceWord(id int) C.uint32_t {
	if id == WholeGPU {
		return C.SIM_NO_INSTANCE
	}
	return C.uint32_t(id)
}

// Processes returns the living processes on a GPU.
func (s *State) Processes(slot Slot) ([]Process, error) {
	ref, err := s.ref(slot)
	if err != nil {
		return nil, err
	}
	return s.processes(ref), nil
}

// InUse reports whether a process uses an instance. With WholeGPU, it checks all instances of the
// GPU. Unlike Processes, it includes processes with read-only access to the state, such as
// processes in containers.
func (s *State) InUse(slot Slot, gi, ci int) (bool, error) {
	ref, err := s.ref(slot)
	scope := C.struct_sim_scope{gpu: ref, gi: instanceWord(gi), ci: instanceWord(ci)}
	return err == nil && bool(C.sim_in_use(s.sim, scope)), err
}

func (s *State) processes(ref C.struct_sim_ref) []Process {
	var list []Process
	for _, entry := range s.entries(ref) {
		p := Process{PID: int(entry.pid), GPUInstance: WholeGPU, ComputeInstance: WholeGPU, MemoryBytes: uint64(entry.memory), Use: useOf(entry.use), MPS: entry.mps != 0}
		if entry.gi != C.SIM_NO_INSTANCE {
			p.GPUInstance, p.ComputeInstance = int(entry.gi), int(entry.ci)
		}
		list = append(list, p)
	}
	return list
}

// entries returns the entries of the living processes on a GPU.
func (s *State) entries(ref C.struct_sim_ref) []C.struct_sim_proc {
	scope := C.struct_sim_scope{gpu: ref, gi: C.SIM_NO_INSTANCE, ci: C.SIM_NO_INSTANCE}
	var found [C.SIM_MAX_PROCS]C.struct_sim_proc
	return slices.Clone(found[:C.sim_procs_on(s.sim, scope, &found[0], C.SIM_MAX_PROCS)])
}
