package mig

import (
	"fmt"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/procowner"
)

// Holder is a process that uses a GPU, or a container with an allocated GPU or MIG device.
type Holder struct {
	// Process has the PID 0 for a container without a known process.
	procowner.Process
	// GPU is NVML's index of the GPU.
	GPU int
	// GPUInstance and ComputeInstance are gpu.NoInstance for the whole GPU.
	GPUInstance, ComputeInstance uint32
	// Device is the profile of the MIG device, empty for the whole GPU.
	Device string
	// Stays is set for a pod that returns after an eviction, even on a cordoned node.
	Stays bool
}

// String returns the process, its command, its owner, and the instance that it uses.
func (h Holder) String() string {
	text := fmt.Sprintf("process %d", h.PID)
	if h.PID == 0 {
		text = "a container"
	}
	if h.Command != "" {
		text += " (" + h.Command + ")"
	}
	switch {
	case h.Pod.Name != "":
		text += fmt.Sprintf(" of pod %s/%s", h.Pod.Namespace, h.Pod.Name)
	case h.Owner.Pod != "":
		text += " of pod " + h.Owner.Pod
	case h.Owner.Container != "":
		text += " of container " + h.Owner.Container[:12]
	case h.Owner.Unit != "":
		text += " of " + h.Owner.Unit
	}
	if h.GPUInstance != gpu.NoInstance {
		text += fmt.Sprintf(" on GPU instance %d", h.GPUInstance)
	}
	return text
}
