package apply

import (
	"slices"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// Processes finds the names and pods of processes.
type Processes struct {
	procowner.Root
	// Driver is the path of the /proc with the driver's files. Default: the /proc of Root.
	Driver string
}

// addOwners returns the processes of a GPU with their owners and MIG devices. Unknown values stay empty.
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
