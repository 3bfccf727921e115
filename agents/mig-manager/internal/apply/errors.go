package apply

import (
	"fmt"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// Holder is a process that uses a GPU, or a container to which it is allocated.
type Holder struct {
	// Process has the PID 0 for a container of which no process is known.
	procowner.Process
	// GPUInstance and ComputeInstance are gpu.NoInstance for the whole GPU.
	GPUInstance, ComputeInstance uint32
}

// process returns what is used, by whom.
func (h Holder) process() mig.Process {
	return mig.Process{PID: h.PID, GPUInstance: h.GPUInstance, ComputeInstance: h.ComputeInstance}
}

// String returns the process, its command, what it belongs to, and the instance that it uses.
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

// InUse is returned if something uses what has to go. Nothing of the GPU was changed, or it
// was rolled back.
type InUse struct {
	GPU   gpu.UUID
	Index int
	// Holders is empty if the driver says that it is in use, and lists no process.
	Holders []Holder
	// Open are processes that have the device node of the GPU open or mapped then, and Modules the kernel
	// modules that can keep it. Both may be empty also if there are some.
	Open    []Holder
	Modules []string
}

// Error names the GPU, the processes and the fix.
func (e *InUse) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("GPU %d (%s) is in use, and the driver lists no process of it: %s", e.Index, e.GPU, e.suspects())
	}
	return fmt.Sprintf("GPU %d (%s) is in use by %s: end it, or wait for it", e.Index, e.GPU, named(e.Holders))
}

// suspects returns what may hold a GPU of which the driver lists no process, and how to find it.
func (e *InUse) suspects() string {
	text := "usually nvidia-persistenced, nv-hostengine of DCGM or an X server of the host has it open"
	if len(e.Open) > 0 {
		text = named(e.Open) + " has it open"
	}
	if len(e.Modules) > 0 {
		text += ", or a display uses it through " + strings.Join(e.Modules, " and ")
	}
	return text + ": find it with fuser -v /dev/nvidia* and lsmod | grep nvidia_, and stop it"
}

func named(holders []Holder) string {
	names := make([]string, 0, len(holders))
	for _, h := range holders {
		names = append(names, h.String())
	}
	return strings.Join(names, ", ")
}

// RebootError is returned for a GPU whose mode takes effect only after a reboot.
type RebootError struct {
	GPU   gpu.UUID
	Index int
	// Reason is why a reset does not do.
	Reason string
}

// Error names the GPU, the reason and the fix.
func (e *RebootError) Error() string {
	return fmt.Sprintf("GPU %d (%s) needs a reboot of the node for its MIG mode: %s", e.Index, e.GPU, e.Reason)
}
