package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// hardware is what can be offered: a whole GPU or one MIG device.
type hardware struct {
	gpu *gpu.GPU
	// mig is nil for a whole GPU.
	mig *gpu.MIGDevice
}

// unit is a piece of hardware, and what the stages have found out about it.
type unit struct {
	hardware
	// position is the place of the unit among all units of the node.
	position int
	// index and refs are how the unit is called; refs has the names of the GPU
	// too, which stand for all MIG devices of it.
	index string
	refs  []string
	// gpuTexts and migTexts are what patterns are compared with.
	gpuTexts, migTexts []string
	// resource is the one to which the unit belongs without sharing, and offered
	// the one under which it is offered.
	resource, offered string
	// replicas is 0 while no share has taken the unit.
	replicas int
}

// enumerate returns the units of the node, ordered. A GPU whose MIG mode is on
// but which has no MIG devices is one unit.
func enumerate(n *gpu.Node, s config.MIGStrategy) []*unit {
	var units []*unit
	for i := range n.GPUs {
		g := &n.GPUs[i]
		whole := newUnit(g)
		if !divided(g, s) || len(g.MIG.Devices) == 0 {
			units = append(units, whole)
			continue
		}
		for j := range g.MIG.Devices {
			units = append(units, whole.part(&g.MIG.Devices[j]))
		}
	}
	slices.SortStableFunc(units, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.gpu.Index, b.gpu.Index), cmp.Compare(a.migIndex(), b.migIndex()))
	})
	for i, u := range units {
		u.position = i
	}
	return units
}

// divided reports whether the strategy offers the MIG devices of the GPU and
// not the GPU.
func divided(g *gpu.GPU, s config.MIGStrategy) bool {
	offers := s == config.MIGStrategySingle || s == config.MIGStrategyMixed
	return offers && g.MIG != nil && g.MIG.Enabled
}

// wholeInMIGMode reports whether the unit is a GPU whose MIG mode is on.
func (u *unit) wholeInMIGMode() bool {
	return u.mig == nil && u.gpu.MIG != nil && u.gpu.MIG.Enabled
}

func newUnit(g *gpu.GPU) *unit {
	index := strconv.Itoa(g.Index)
	return &unit{hardware: hardware{gpu: g}, index: index, refs: []string{index, string(g.UUID)}, gpuTexts: gpuTexts(g)}
}

// part returns a MIG device of the GPU that u is.
func (u *unit) part(m *gpu.MIGDevice) *unit {
	index := u.index + ":" + strconv.Itoa(m.Index)
	return &unit{
		hardware: hardware{gpu: u.gpu, mig: m}, index: index,
		// The last one is what drivers before 470 called a MIG device.
		refs: append(slices.Clone(u.refs), index, string(m.UUID),
			fmt.Sprintf("MIG-%s/%d/%d", u.gpu.UUID, m.GPUInstance, m.ComputeInstance)),
		gpuTexts: u.gpuTexts, migTexts: migTexts(m),
	}
}

func (u *unit) migIndex() int {
	if u.mig == nil {
		return -1
	}
	return u.mig.Index
}

func (u *unit) uuid() gpu.UUID {
	if u.mig == nil {
		return u.gpu.UUID
	}
	return u.mig.UUID
}

// memory returns the bytes of the unit's own memory, 0 if they are not known. A
// MIG device that is a part of its GPU instance shares the memory of that with
// the other parts: its own is as large a part.
func (u *unit) memory() uint64 {
	if u.mig == nil {
		return u.gpu.MemoryBytes
	}
	p := u.mig.Profile
	if p.GPUSlices == 0 {
		return u.mig.MemoryBytes
	}
	return u.mig.MemoryBytes * uint64(p.ComputeSlices) / uint64(p.GPUSlices)
}

// fault returns why the hardware fails, nil if it works.
func (h hardware) fault() *gpu.Fault {
	if h.gpu.Fault == nil && h.mig != nil {
		return h.mig.Fault
	}
	return h.gpu.Fault
}

// called reports whether ref names the unit, or its GPU.
func (u *unit) called(ref string) bool { return ref != "" && slices.Contains(u.refs, ref) }

// device returns the unit as it is offered, but for its health.
func (u *unit) device() Device {
	d := Device{
		UUID:     u.uuid(),
		Index:    u.index,
		GPU:      u.gpu.Index,
		Replicas: max(u.replicas, 1),
		NUMANode: u.gpu.NUMANode,
	}
	// The minors of hardware that fails may not have been read.
	if u.fault() == nil {
		d.Paths = u.paths()
	}
	return d
}

// paths returns the device nodes: a MIG device is reached through that of its
// GPU, and the driver grants it to who can open those of its GPU instance and
// its compute instance (MIG User Guide, "Device Nodes and Capabilities").
func (u *unit) paths() []string {
	paths := []string{"/dev/nvidia" + strconv.Itoa(u.gpu.Minor)}
	if u.mig == nil {
		return paths
	}
	const capability = "/dev/nvidia-caps/nvidia-cap"
	return append(paths,
		capability+strconv.Itoa(u.mig.GPUInstanceCap), capability+strconv.Itoa(u.mig.ComputeInstanceCap))
}

// health returns the status of the hardware. A fault counts also where the view
// does not tell of it.
func (h hardware) health(v health.View) health.Status {
	var s health.Status
	if h.mig == nil {
		s = v.OfWhole(h.gpu)
	} else {
		s = v.OfMIG(h.gpu.UUID, *h.mig)
	}
	if f := h.fault(); f != nil && s.Healthy {
		return health.Status{Kind: health.KindFault, Reason: f.Error()}
	}
	return s
}
