package state

// #include "simstate.h"
import "C"

import (
	"errors"
	"slices"
)

// ComputeMode says which processes may use a GPU. Empty means all.
type ComputeMode string

// The values of ComputeMode.
const (
	ExclusiveProcess ComputeMode = "exclusive-process" // one process
	Prohibited       ComputeMode = "prohibited"        // none
)

const (
	computeField = "compute-mode"
	// computeDefault is the name of the empty ComputeMode.
	computeDefault ComputeMode = "default"
)

// computeModes returns the names by their number in NVML.
func computeModes() []ComputeMode {
	return []ComputeMode{computeDefault, "", Prohibited, ExclusiveProcess}
}

func computeModeName(code C.uint32_t) ComputeMode {
	if all := computeModes(); code != C.SIM_COMPUTE_DEFAULT && int(code) < len(all) {
		return all[code]
	}
	return ""
}

// setComputeMode sets the mode of a GPU. Processes that use the GPU continue.
func setComputeMode(t *telemetry, text string) error {
	code := slices.Index(computeModes(), ComputeMode(text))
	if text == "" || code < 0 {
		return errors.New("want default, exclusive-process or prohibited")
	}
	t.gpu.compute_mode = C.uint32_t(code)
	return nil
}

// resetComputeMode sets the default mode, as a load of the driver does. The caller holds the lock.
func (s *State) resetComputeMode(slot C.uint32_t) {
	gpu, err := s.gpu(Slot(slot))
	if err != nil {
		return // an empty slot
	}
	gpu.compute_mode = C.SIM_COMPUTE_DEFAULT
	C.sim_write_gpu(s.sim, slot, &gpu)
}
