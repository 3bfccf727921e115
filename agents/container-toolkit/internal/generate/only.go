package generate

import (
	"slices"

	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/gpu"
)

// selectDevices returns the devices that o.Only selects, their device "all", and the selected devices that
// cannot be described. A GPU is selected with its MIG devices. A selection without a match is
// unresolved.
func (o Options) selectDevices(gpus []gpu.GPU, all []cdi.Device, missing []cdi.Unresolved) (out []cdi.Device, unresolved []cdi.Unresolved) {
	c := choice{names: map[string]bool{}, ids: map[gpu.UUID]bool{}}
	for _, id := range o.Only {
		if !c.add(gpus, id, o.names()) {
			unresolved = append(unresolved, cdi.Unresolved{UUID: gpu.UUID(id), Reason: "the node has no such GPU or MIG device"})
		}
	}
	for _, u := range missing {
		if c.ids[u.UUID] {
			unresolved = append(unresolved, u)
		}
	}
	rest := cdi.Device{Name: cdi.All}
	for _, d := range all {
		if c.names[d.Name] {
			out = append(out, d)
			rest.Nodes = append(rest.Nodes, d.Nodes...)
		}
	}
	rest.Nodes = cdi.Unique(rest.Nodes)
	return append(out, rest), unresolved
}

// choice is a set of GPUs and MIG devices.
type choice struct {
	// names are the names in the spec.
	names map[string]bool
	ids   map[gpu.UUID]bool
}

// add adds the GPUs and MIG devices with the name id, and reports whether there are any.
func (c *choice) add(gpus []gpu.GPU, id string, names []cdi.Namer) bool {
	found := false
	for i := range gpus {
		g := &gpus[i]
		parts := []*gpu.MIGDevice{nil}
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			parts = append(parts, &g.MIG.Devices[j])
		}
		if !matches(id, g, nil) {
			parts = slices.DeleteFunc(parts, func(m *gpu.MIGDevice) bool { return m == nil || !matches(id, g, m) })
		}
		for _, m := range parts {
			found = true
			c.ids[gpu.UUID(cdi.ByUUID(g, m))] = true
			for _, name := range names {
				c.names[name(g, m)] = true
			}
		}
	}
	return found
}

// matches reports whether id is a name of a GPU, or of its MIG device m if m is not nil. Both forms
// of the PCI bus ID match, and the name that drivers before 470 gave to a MIG device.
func matches(id string, g *gpu.GPU, m *gpu.MIGDevice) bool {
	if id == "" {
		return false
	}
	if in, ok := request.ParseInstance(id); ok && m != nil {
		return in.GPU == g.UUID && in.GPUInstance == int(m.GPUInstance) && in.ComputeInstance == int(m.ComputeInstance)
	}
	return id == cdi.ByIndex(g, m) || id == cdi.ByUUID(g, m) || id == cdi.ByPCI(g, m) || id == cdi.ByPCIAddress(g, m) || id == cdi.ByType(g, m)
}
