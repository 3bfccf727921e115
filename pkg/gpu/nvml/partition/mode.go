package partition

import (
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// Activation says whether a change of the mode is in effect.
type Activation int

// The values of Activation.
const (
	// Active means that the mode is in effect.
	Active Activation = iota
	// Pending means that the mode takes effect after a reset of the GPU, or after a reboot if the
	// GPU cannot be reset.
	Pending
	// Busy means that processes use the GPU.
	Busy
)

// SetMode sets the MIG mode of a GPU. The change may destroy the GPU's instances.
func (v *View) SetMode(id gpu.UUID, on bool) (Activation, error) {
	k, err := v.entry(id)
	if err != nil {
		return Active, err
	}
	activation, err := k.handle.SetMIGMode(on)
	switch {
	case nvml.Code(err) == gonvml.ERROR_IN_USE:
		return Busy, nil
	case err != nil:
		return Active, fmt.Errorf("set MIG mode: %w", err)
	}
	switch activation {
	case gonvml.SUCCESS:
		return Active, nil
	case gonvml.ERROR_RESET_REQUIRED:
		return Pending, nil
	case gonvml.ERROR_IN_USE:
		return Busy, nil
	default:
		return Active, fmt.Errorf("set MIG mode: activate it: %s", gonvml.ErrorString(activation))
	}
}

// InUse reports whether err means that a process uses the object of a change.
func InUse(err error) bool { return nvml.Code(err) == gonvml.ERROR_IN_USE }
