package state

// #include "simstate.h"
import "C"

import (
	"errors"
	"fmt"
)

// The ways in which a change of the Multi-Instance state is rejected: the
// answers of NVML.
var (
	// ErrIndivisible says that a product has no MIG mode.
	ErrIndivisible = errors.New("the GPU does not support MIG")
	// ErrNoMIG says that the MIG mode is off.
	ErrNoMIG = errors.New("MIG mode is off")
	// ErrInUse says that processes or compute instances use it.
	ErrInUse = errors.New("in use")
	// ErrNoRoom says that the place is taken, or nothing is left.
	ErrNoRoom = errors.New("no room")
	// ErrNoInstance says that there is no such instance.
	ErrNoInstance = errors.New("no such instance")
	// ErrLost says that the GPU is lost.
	ErrLost = errors.New("GPU is lost")
	// ErrArgument says that there is no such profile, or no such place for it.
	ErrArgument = errors.New("no such profile or placement")
)

// Anywhere lets the driver choose the place of an instance.
const Anywhere = -1

// MIG is the Multi-Instance state of a GPU.
type MIG struct {
	// Enabled is the mode in force, Pending the one after the next reset.
	Enabled      bool          `json:"enabled"`
	Pending      bool          `json:"pending"`
	GPUInstances []GPUInstance `json:"gpuInstances"`
}

// GPUInstance is a part of a GPU with memory of its own.
type GPUInstance struct {
	ID      int    `json:"id"`
	Profile string `json:"profile"`
	// Start and Size are in memory slices.
	Start int `json:"start"`
	Size  int `json:"size"`
	// Minor is that of its capability node.
	Minor            int               `json:"minor"`
	ComputeInstances []ComputeInstance `json:"computeInstances"`
	// Values that SetInstanceField set, but those that are 0.
	Values map[string]uint64 `json:"values,omitempty"`

	generation uint64
}

// ComputeInstance is a part of a GPU instance: a MIG device.
type ComputeInstance struct {
	ID int `json:"id"`
	// Index is NVML's index of the MIG device on its GPU.
	Index   int    `json:"index"`
	UUID    string `json:"uuid"`
	Profile string `json:"profile"`
	// Start and Size are in compute slices of the GPU instance.
	Start int `json:"start"`
	Size  int `json:"size"`
	Minor int `json:"minor"`

	generation uint64
}

// Activation says what has become of a change of the mode.
type Activation string

// The values of Activation.
const (
	// ModeActive: the mode is in force.
	ModeActive Activation = "active"
	// ModePending: it will be after a reset of the GPU.
	ModePending Activation = "pending"
	// ModePendingInUse: as ModePending, and processes stand in the way of one.
	ModePendingInUse Activation = "pending, in use"
)

// statusError turns an answer of the C functions into an error.
func statusError(status C.enum_sim_status) error {
	switch status {
	case C.SIM_SUCCESS:
		return nil
	case C.SIM_INVALID_ARGUMENT:
		return ErrArgument
	case C.SIM_NOT_SUPPORTED:
		return ErrNoMIG
	case C.SIM_NO_PERMISSION:
		return ErrReadOnly
	case C.SIM_NOT_FOUND:
		return ErrNoInstance
	case C.SIM_GPU_IS_LOST:
		return ErrLost
	case C.SIM_IN_USE:
		return ErrInUse
	case C.SIM_INSUFFICIENT_RESOURCES:
		return ErrNoRoom
	default:
		return fmt.Errorf("answer %d of nvmlReturn_t", int(status))
	}
}

// ref names the GPU in a slot as the C functions want it.
func (s *State) ref(slot Slot) (C.struct_sim_ref, error) {
	gpu, err := s.gpu(slot)
	return C.struct_sim_ref{slot: C.uint32_t(slot), generation: gpu.generation}, err
}

// divisible names a GPU that has a MIG mode, and says what it can be divided
// into.
func (s *State) divisible(slot Slot) (C.struct_sim_ref, *C.struct_sim_board, error) {
	gpu, err := s.gpu(slot)
	board := C.sim_board(&gpu.model[0])
	if err == nil && board == nil {
		err = fmt.Errorf("GPU of model %s in slot %d: %w", getString(gpu.model[:]), slot, ErrIndivisible)
	}
	return C.struct_sim_ref{slot: C.uint32_t(slot), generation: gpu.generation}, board, err
}

// SetMIGMode switches the Multi-Instance mode of a GPU. Where it takes effect
// at once, switching it off ends all instances. ErrInUse: processes use a GPU
// whose mode would change at once; nothing changed.
func (s *State) SetMIGMode(slot Slot, on bool) (Activation, error) {
	ref, _, err := s.divisible(slot)
	if err != nil {
		return "", fmt.Errorf("set MIG mode: %w", err)
	}
	var activation C.enum_sim_status
	if err := statusError(C.sim_set_mig_mode(s.sim, ref, C.bool(on), &activation)); err != nil {
		return "", fmt.Errorf("set MIG mode of slot %d: %w", slot, err)
	}
	if activation == C.SIM_SUCCESS {
		return ModeActive, nil
	}
	mig, err := s.MIG(slot)
	switch {
	case err != nil:
		return "", err
	case mig.Pending != on:
		return "", fmt.Errorf("set MIG mode of slot %d: %w", slot, ErrInUse)
	case activation == C.SIM_IN_USE:
		return ModePendingInUse, nil
	default:
		return ModePending, nil
	}
}

// CreateGPUInstance makes a GPU instance of a profile, at a memory slice or
// Anywhere.
func (s *State) CreateGPUInstance(slot Slot, profile GIProfile, start int) (GPUInstance, error) {
	ref, board, err := s.divisible(slot)
	if err != nil {
		return GPUInstance{}, fmt.Errorf("create %s: %w", profile.Name, err)
	}
	want := C.struct_sim_gi_request{id: C.uint32_t(profile.ID), start: startWord(start), size: C.uint32_t(profile.Size)}
	var gi C.struct_sim_gi
	if err := statusError(C.sim_create_gi(s.sim, ref, &want, &gi)); err != nil {
		return GPUInstance{}, fmt.Errorf("create %s on slot %d: %w", profile.Name, slot, err)
	}
	return describeGI(board, ref.slot, &gi), nil
}

// CreateComputeInstance makes a compute instance in a GPU instance, at a
// compute slice or Anywhere.
func (s *State) CreateComputeInstance(slot Slot, gi GPUInstance, profile CIProfile, start int) (ComputeInstance, error) {
	ref, _, err := s.divisible(slot)
	if err != nil {
		return ComputeInstance{}, fmt.Errorf("create %s: %w", profile.Name, err)
	}
	want := C.struct_sim_ci_request{
		gi: C.uint64_t(gi.generation), id: C.uint32_t(profile.ID),
		start: startWord(start), size: C.uint32_t(profile.Slices),
	}
	var made C.struct_sim_ci
	if err := statusError(C.sim_create_ci(s.sim, ref, &want, &made)); err != nil {
		return ComputeInstance{}, fmt.Errorf("create %s in GPU instance %d of slot %d: %w", profile.Name, gi.ID, slot, err)
	}
	mig, err := s.MIG(slot)
	if err != nil {
		return ComputeInstance{}, err
	}
	return mig.compute(uint64(made.generation))
}

func startWord(start int) C.uint32_t {
	if start == Anywhere {
		return C.SIM_ANYWHERE
	}
	return C.uint32_t(start)
}

// DestroyGPUInstance ends a GPU instance that has no compute instance left.
func (s *State) DestroyGPUInstance(slot Slot, gi GPUInstance) error {
	ref, _, err := s.divisible(slot)
	if err == nil {
		err = statusError(C.sim_destroy_gi(s.sim, ref, C.uint64_t(gi.generation)))
	}
	if err != nil {
		return fmt.Errorf("destroy GPU instance %d of slot %d: %w", gi.ID, slot, err)
	}
	return nil
}

// DestroyComputeInstance ends a compute instance that no process uses.
func (s *State) DestroyComputeInstance(slot Slot, ci ComputeInstance) error {
	ref, _, err := s.divisible(slot)
	if err == nil {
		err = statusError(C.sim_destroy_ci(s.sim, ref, C.uint64_t(ci.generation)))
	}
	if err != nil {
		return fmt.Errorf("destroy MIG device %s of slot %d: %w", ci.UUID, slot, err)
	}
	return nil
}

// BeginReset begins the reset of a GPU that no process uses: from here it is
// lost, has no instances, and a pending mode is in force.
func (s *State) BeginReset(slot Slot) error {
	ref, err := s.ref(slot)
	if err == nil {
		err = statusError(C.sim_begin_reset(s.sim, ref))
	}
	if err != nil {
		return fmt.Errorf("reset GPU in slot %d: %w", slot, err)
	}
	return nil
}

// EndReset brings the GPU back.
func (s *State) EndReset(slot Slot) error {
	ref, err := s.ref(slot)
	if err == nil {
		err = statusError(C.sim_end_reset(s.sim, ref))
	}
	if err != nil {
		return fmt.Errorf("end reset of the GPU in slot %d: %w", slot, err)
	}
	return nil
}
