package gputest

import (
	"cmp"
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
)

// Partition turns the MIG mode of a GPU on and gives it devices of exactly these profiles. It
// changes node and returns it. The result is deterministic: UUIDs, IDs, minors of capabilities, and
// placements. It places the largest instances first, each at the highest free placement, so that
// every possible layout fits. A profile with fewer compute slices than GPU slices shares the GPU
// instance of the profile before it if there is room. It panics on a layout that the model cannot
// have.
func Partition(node *gpu.Node, index int, profiles ...string) *gpu.Node {
	g := node.GPU(index)
	if g == nil {
		panic(fmt.Sprintf("gputest: partition GPU %d: the node has no such GPU", index))
	}
	b, ok := boardOf(g)
	if !ok {
		panic(fmt.Sprintf("gputest: partition GPU %d: %s has no MIG mode", index, g.Name))
	}
	g.MIG = &gpu.MIG{Enabled: true, Pending: true}
	instances := group(g, b, profiles)
	slices.SortStableFunc(instances, func(x, y instance) int {
		return -cmp.Or(cmp.Compare(x.kind.compute, y.kind.compute), cmp.Compare(x.kind.memory, y.kind.memory))
	})
	taken, media := make([]bool, b.memory), 0
	for _, in := range instances {
		in.place = place(taken, in.kind, g)
		if in.kind.attribute == "+me" {
			media++
		}
		g.MIG.Devices = append(g.MIG.Devices, in.devices(g, b)...)
		g.MIG.GPUInstances = append(g.MIG.GPUInstances, gpu.GPUInstance{ID: in.id(b), Profile: in.profile(), Placement: in.place})
	}
	if media > 1 {
		panic(fmt.Sprintf("gputest: partition GPU %d: %q has +me twice, the GPU has it once", index, profiles))
	}
	slices.SortFunc(g.MIG.Devices, func(x, y gpu.MIGDevice) int {
		return cmp.Or(cmp.Compare(x.GPUInstance, y.GPUInstance), cmp.Compare(x.ComputeInstance, y.ComputeInstance))
	})
	for n := range g.MIG.Devices {
		g.MIG.Devices[n].Index = n
	}
	slices.SortFunc(g.MIG.GPUInstances, func(x, y gpu.GPUInstance) int { return cmp.Compare(x.ID, y.ID) })
	return node
}

// instance is one GPU instance.
type instance struct {
	kind  instanceKind
	place gpu.Placement
	// parts holds the profiles of its compute instances.
	parts []gpu.Profile
}

// group assigns the profiles to GPU instances.
func group(g *gpu.GPU, b board, profiles []string) []instance {
	var out []instance
	for _, text := range profiles {
		p, err := gpu.ParseProfile(text)
		if err != nil {
			panic("gputest: partition: " + err.Error())
		}
		i := slices.IndexFunc(b.slices, func(s instanceKind) bool {
			return s.compute == p.GPUSlices && s.attribute == p.Attribute && gpu.ProfileGB(s.mib<<20, g.MemoryBytes) == p.GB
		})
		if i < 0 {
			panic(fmt.Sprintf("gputest: partition GPU %d: %s has no %s", g.Index, g.Name, text))
		}
		if n := len(out) - 1; n >= 0 && p.ComputeSlices < p.GPUSlices && out[n].hasRoom(p) {
			out[n].parts = append(out[n].parts, p)
			continue
		}
		out = append(out, instance{kind: b.slices[i], parts: []gpu.Profile{p}})
	}
	return out
}

// hasRoom reports whether another compute instance of the profile fits in the instance.
func (in instance) hasRoom(p gpu.Profile) bool {
	first, used := in.parts[0], p.ComputeSlices
	for _, part := range in.parts {
		used += part.ComputeSlices
	}
	return first.GPUSlices == p.GPUSlices && first.GB == p.GB && first.Attribute == p.Attribute && used <= p.GPUSlices
}

// place takes the highest free placement.
func place(taken []bool, s instanceKind, g *gpu.GPU) gpu.Placement {
	for _, start := range slices.Backward(s.starts) {
		if part := taken[start : start+s.memory]; !slices.Contains(part, true) {
			for i := range part {
				part[i] = true
			}
			return gpu.Placement{Start: start, Size: s.memory}
		}
	}
	panic(fmt.Sprintf("gputest: partition GPU %d: no room for %dg with %d memory slices", g.Index, s.compute, s.memory))
}

// id returns the ID of a placed GPU instance. As on hardware, as far as known, the ID follows from
// the placement.
func (in instance) id(b board) uint32 {
	return uint32(map[int]int{8: 0, 4: 1, 2: 3, 1: 7}[in.kind.memory*8/b.memory] + in.place.Start/in.kind.memory)
}

// profile returns the profile of the whole instance.
func (in instance) profile() gpu.Profile {
	p := in.parts[0]
	p.ComputeSlices = p.GPUSlices
	return p
}

// devices returns the devices of a placed GPU instance. The minors of capabilities are the same as
// from the kernel module.
func (in instance) devices(g *gpu.GPU, b board) []gpu.MIGDevice {
	id := in.id(b)
	gpuCap := 3 + 135*g.Minor + 9*int(id)
	out := make([]gpu.MIGDevice, 0, len(in.parts))
	for ci, p := range in.parts {
		e := in.kind.engines
		e.Multiprocessors = e.Multiprocessors * p.ComputeSlices / p.GPUSlices
		e.GPUInstanceSlices, e.ComputeInstanceSlices = p.GPUSlices, p.ComputeSlices
		out = append(out, gpu.MIGDevice{
			UUID:        gpu.UUID(fmt.Sprintf("MIG-00000000-0000-4000-8000-%04x%04x%04x", g.Index, id, ci)),
			GPUInstance: id, ComputeInstance: uint32(ci), Profile: p, Placement: in.place,
			MemoryBytes: in.kind.mib << 20, Engines: e, GPUInstanceCap: gpuCap, ComputeInstanceCap: gpuCap + 1 + ci,
		})
	}
	return out
}
