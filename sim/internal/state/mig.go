package state

// #include "simstate.h"
import "C"

import (
	"errors"
	"fmt"
)

// The errors of a change of the MIG state, which correspond to return codes of NVML.
var (
	// ErrIndivisible means that a product does not support MIG.
	ErrIndivisible = errors.New("the GPU does not support MIG")
	// ErrNoMIG means that MIG mode is off.
	ErrNoMIG = errors.New("MIG mode is off")
	// ErrInUse means that processes or compute instances use the GPU or instance.
	ErrInUse = errors.New("in use")
	// ErrNoRoom means that the placement is occupied, or that no slices are free.
	ErrNoRoom = errors.New("no room")
	// ErrNoInstance means that the instance does not exist.
	ErrNoInstance = errors.New("no such instance")
	// ErrLost means that the GPU is lost.
	ErrLost = errors.New("GPU is lost")
	// ErrArgument means that the profile, or its placement, does not exist.
	ErrArgument = errors.New("no such profile or placement")
)

// Anywhere lets the driver choose the placement of an instance.
const Anywhere = -1

// MIG is the MIG state of a GPU.
type MIG struct {
	// Enabled is the current mode. Pending is the mode after the next reset.
	Enabled      bool          `json:"enabled"`
	Pending      bool          `json:"pending"`
	GPUInstances []GPUInstance `json:"gpuInstances"`
}

// GPUInstance is a part of a GPU with separate memory.
type GPUInstance struct {
	ID      int    `json:"id"`
	Profile string `json:"profile"`
	// Start and Size are in memory slices.
	Start int `json:"start"`
	Size  int `json:"size"`
	// Minor is the minor of the capability node.
	Minor            int               `json:"minor"`
	ComputeInstances []ComputeInstance `json:"computeInstances"`
	// Values has the values of SetInstanceField that are not 0.
	Values map[string]uint64 `json:"values,omitempty"`

	generation uint64
}

// ComputeInstance is a part of a GPU instance. It is a MIG device.
type ComputeInstance struct {
	ID int `json:"id"`
	// Index is the NVML index of the MIG device on its GPU.
	Index   int    `json:"index"`
	UUID    string `json:"uuid"`
	Profile string `json:"profile"`
	// Start and Size are in compute slices of the GPU instance.
	Start int `json:"start"`
	Size  int `json:"size"`
	Minor int `json:"minor"`

	generation uint64
}

// Activation is the result of a change of the mode.
type Activation string

// The values of Activation.
const (
	// ModeActive means that the mode is active.
	ModeActive Activation = "active"
	// ModePending means that the mode becomes active after a reset of the GPU.
	ModePending Activation = "pending"
	// ModePendingInUse means that the mode is pending, and that processes prevent a reset.
	ModePendingInUse Activation = "pending, in use"
)

// statusError converts a status of the C functions to an error.
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

// ref returns the reference of the GPU in a slot for the C functions.
func (s *State) ref(slot Slot) (C.struct_sim_ref, error) {
	gpu, err := s.gpu(slot)
	return C.struct_sim_ref{slot: C.uint32_t(slot), generation: gpu.generation}, err
}

// divisible returns the reference and the board of a GPU that supports MIG.
func (s *State) divisible(slot Slot) (C.struct_sim_ref, *C.struct_sim_board, error) {
	gpu, err := s.gpu(slot)
	board := C.sim_board(s.sim, &gpu)
	if err == nil && board == nil {
		err = fmt.Errorf("GPU of model %s in slot %d: %w", getString(gpu.model[:]), slot, ErrIndivisible)
	}
	return C.struct_sim_ref{slot: C.uint32_t(slot), generation: gpu.generation}, board, err
}

// SetMIGMode switches the MIG mode of a GPU. If the change is immediate, switching MIG mode off
// destroys all instances. It returns ErrInUse, and changes nothing, if the change would be
// immediate but processes use the GPU.
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

// CreateGPUInstance makes a GPU instance of a profile, at a memory slice or Anywhere.
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

// CreateComputeInstance makes a compute instance in a GPU instance, at a compute slice or Anywhere.
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

// DestroyGPUInstance destroys a GPU instance that has no compute instances.
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

// DestroyComputeInstance destroys a compute instance that no process uses.
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

// BeginReset begins the reset of a GPU that no process uses. It marks the GPU as lost, destroys its
// instances, and makes a pending mode active.
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

// EndReset ends the reset. The GPU is no longer lost.
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
