package reader

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// noMinor is the Minor of a GPU whose minor is not known.
const noMinor = driverproc.NoMinor

// kernelGPUs returns the GPUs as the kernel driver reports them, if NVML did not report the
// identity of one of the devices.
func kernelGPUs(proc driverproc.Root, devices []device) []driverproc.GPU {
	if !slices.ContainsFunc(devices, func(d device) bool { return !identified(&d.gpu) }) {
		return nil
	}
	var out []driverproc.GPU
	for _, id := range proc.BusIDs() {
		g, _ := proc.GPU(id) // values that cannot be read stay empty
		out = append(out, g)
	}
	return out
}

// identified reports whether all values that the kernel driver can report of a GPU are known.
func identified(g *gpu.GPU) bool {
	return g.UUID != "" && g.Minor != noMinor && g.PCI.BusID != "" && g.Name != ""
}

// identify sets values of devices that NVML did not report. It matches devices without a bus ID
// with the kernel's GPUs that NVML did not show. If their numbers are equal they are the same GPUs,
// because both lists are in the order of the bus.
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

// markDoubles makes GPUs and MIG devices faulty that have the UUID of another device, because an
// allocation of that UUID would be ambiguous. The first device keeps the UUID.
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
