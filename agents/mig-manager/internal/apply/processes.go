package apply

import (
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// Processes says where the names of processes and pods are.
type Processes struct {
	procowner.Root
	// Driver is where /proc has what the driver shows. By default, it is that of Root.
	Driver string
}

// name returns what is known of processes. What cannot be read is left out.
func (p Processes) name(list []mig.Process) []Holder {
	known := make([]procowner.Process, 0, len(list))
	for _, one := range list {
		known = append(known, p.Process(one.PID))
	}
	p.NamePods(known)
	out := make([]Holder, 0, len(list))
	for i, one := range list {
		out = append(out, Holder{Process: known[i], GPUInstance: one.GPUInstance, ComputeInstance: one.ComputeInstance})
	}
	return out
}
