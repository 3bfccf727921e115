package reader

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// noMinor is the Minor of a GPU whose minor is not known.
const noMinor = driverproc.NoMinor

// kernelGPUs returns the GPUs as the kernel driver reports them, if there is a
// device that NVML did not say enough about.
func kernelGPUs(proc driverproc.Root, devices []device) []driverproc.GPU {
	if !slices.ContainsFunc(devices, func(d device) bool { return !identified(&d.gpu) }) {
		return nil
	}
	var out []driverproc.GPU
	for _, id := range proc.BusIDs() {
		g, _ := proc.GPU(id) // what cannot be read is not known
		out = append(out, g)
	}
	return out
}

// identified reports whether all that the kernel driver reports of a GPU is known.
func identified(g *gpu.GPU) bool {
	return g.UUID != "" && g.Minor != noMinor && g.PCI.BusID != "" && g.Name != ""
}

// identify fills in what NVML did not report of devices. Devices without a
// bus ID are matched with the kernel's GPUs that NVML did not show: if there are
// as many of both they are the same ones, since both are in the order of the bus.
func identify(devices []device, kernel []driverproc.GPU) {
	byID := map[string]driverproc.GPU{}
	for _, p := range kernel {
		byID[p.BusID] = p
	}
	var unknown []*gpu.GPU
	for i := range devices {
		g := &devices[i].gpu
		p, ok := byID[g.PCI.BusID]
		if ok {
			fill(g, p)
			delete(byID, g.PCI.BusID)
		} else if g.PCI.BusID == "" {
			unknown = append(unknown, g)
		}
	}
	if len(unknown) != len(byID) {
		return
	}
	for _, p := range kernel {
		if _, ok := byID[p.BusID]; ok {
			unknown[0].PCI.BusID = p.BusID
			fill(unknown[0], p)
			unknown = unknown[1:]
		}
	}
}

// fill sets the fields of g that are not known yet.
func fill(g *gpu.GPU, p driverproc.GPU) {
	if g.UUID == "" {
		g.UUID = p.UUID
	}
	if g.Name == "" {
		g.Name = p.Name
	}
	if g.Minor == noMinor {
		g.Minor = p.Minor
	}
}

// markDoubles marks GPUs and MIG devices that have the UUID of another one as
// faulty: an allocation of that UUID would be ambiguous. The first one keeps it.
func markDoubles(devices []device) {
	first := map[gpu.UUID]string{}
	mark := func(id *gpu.UUID, fault **gpu.Fault, what string) {
		if *id == "" {
			return
		}
		other, twice := first[*id]
		if !twice {
			first[*id] = what
			return
		}
		if *fault == nil {
			*fault = &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: fmt.Sprintf("%s is also the UUID of %s", *id, other)}
		}
		*id = ""
	}
	for i := range devices {
		g := &devices[i].gpu
		mark(&g.UUID, &g.Fault, fmt.Sprintf("GPU %d", g.Index))
	}
	for i := range devices {
		g := &devices[i].gpu
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			d := &g.MIG.Devices[j]
			mark(&d.UUID, &d.Fault, fmt.Sprintf("MIG device %d:%d", g.Index, d.Index))
		}
	}
}
