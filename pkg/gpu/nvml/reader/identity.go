package reader

import (
	"fmt"
	"slices"
	"sync"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// noMinor is the Minor of a GPU whose minor is not known.
const noMinor = driverproc.NoMinor

// kernelGPUs returns the GPUs as the kernel driver reports them, if there is a
// device that NVML did not say enough about.
func kernelGPUs(proc driverproc.Root, devices []device) []driverproc.GPU {
	if !slices.ContainsFunc(devices, func(d device) bool { return d.gpu.Fault != nil }) {
		return nil
	}
	var out []driverproc.GPU
	for _, id := range proc.BusIDs() {
		g, _ := proc.GPU(id) // what cannot be read is not known
		out = append(out, g)
	}
	return out
}

// identify fills in what NVML did not report of faulty devices. Devices without a
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

// memory holds each GPU as it was when it last worked. An index means the same
// GPU for as long as NVML is initialised.
type memory struct {
	mu   sync.Mutex
	good map[int]gpu.GPU
}

// keep remembers the GPUs that work.
func (m *memory) keep(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.good == nil {
		m.good = map[int]gpu.GPU{}
	}
	for _, d := range devices {
		if d.gpu.Fault == nil {
			m.good[d.gpu.Index] = copyOf(d.gpu)
		}
	}
}

// recall restores faulty GPUs as they were when they last worked, except for the
// fault and the recovery.
func (m *memory) recall(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range devices {
		g := &devices[i].gpu
		if was, ok := m.good[g.Index]; ok && g.Fault != nil {
			was = copyOf(was)
			was.Fault, was.Recovery = g.Fault, g.Recovery
			*g = was
		}
	}
}

// copyOf returns a copy of g that shares nothing with it which its user may change.
func copyOf(g gpu.GPU) gpu.GPU {
	if g.MIG != nil {
		mig := *g.MIG
		mig.Devices, mig.GPUInstances = slices.Clone(mig.Devices), slices.Clone(mig.GPUInstances)
		g.MIG = &mig
	}
	if g.Fabric != nil {
		fabric := *g.Fabric
		g.Fabric = &fabric
	}
	return g
}
