package apply

import (
	"slices"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// Processes says where the names of processes and pods are.
type Processes struct {
	procowner.Root
	// Driver is where /proc has what the driver shows. By default, it is that of Root.
	Driver string
}

// addOwners returns the processes of a GPU with their owners and MIG devices. Unknown properties are left out.
func (p Processes) addOwners(g mig.GPU, list []mig.Holder) []mig.Holder {
	known := make([]procowner.Process, 0, len(list))
	for _, h := range list {
		known = append(known, p.Process(h.PID))
	}
	p.NamePods(known)
	out := slices.Clone(list)
	for i := range out {
		out[i].Process, out[i].Device = known[i], g.Layout.Device(out[i].GPUInstance, out[i].ComputeInstance)
	}
	return out
}
