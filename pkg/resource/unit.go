package resource

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// hardware is a whole GPU or one MIG device.
type hardware struct {
	gpu *gpu.GPU
	// mig is nil for a whole GPU.
	mig *gpu.MIGDevice
}

// unit is one piece of hardware with the results of the stages.
type unit struct {
	hardware
	// position is the place of the unit among all units of the node.
	position int
	// index and refs are names of the unit. refs also has the names of its GPU, which stand for all
	// of the GPU's MIG devices.
	index string
	refs  []string
	// gpuTexts and migTexts are the texts that patterns can match.
	gpuTexts, migTexts []string
	// resource is the name of the unit's resource without sharing. advertised is the name of the
	// resource that advertises the unit.
	resource, advertised string
	// replicas is 0 until a share takes the unit.
	replicas int
	// mps is set if MPS shares the unit.
	mps bool
}

// enumerate returns the units of the node, ordered. A GPU in MIG mode without MIG devices is one
// unit.
func enumerate(n *gpu.Node, s config.MIGStrategy) []*unit {
	var units []*unit
	for i := range n.GPUs {
		g := &n.GPUs[i]
		whole := newUnit(g)
		if !isDivided(g, s) || len(g.MIG.Devices) == 0 {
			units = append(units, whole)
			continue
		}
		for j := range g.MIG.Devices {
			units = append(units, whole.migUnit(&g.MIG.Devices[j]))
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

// isDivided reports whether the strategy advertises the MIG devices of the GPU instead of the GPU.
func isDivided(g *gpu.GPU, s config.MIGStrategy) bool {
	strategy := s == config.MIGStrategySingle || s == config.MIGStrategyMixed
	return strategy && g.MIG != nil && g.MIG.Enabled
}

// wholeInMIGMode reports whether the unit is a GPU whose MIG mode is on.
func (u *unit) wholeInMIGMode() bool {
	return u.mig == nil && u.gpu.MIG != nil && u.gpu.MIG.Enabled
}

func newUnit(g *gpu.GPU) *unit {
	index := strconv.Itoa(g.Index)
	return &unit{hardware: hardware{gpu: g}, index: index, refs: []string{index, string(g.UUID)}, gpuTexts: gpuTexts(g)}
}

// migUnit returns the unit of a MIG device on the GPU of u.
func (u *unit) migUnit(m *gpu.MIGDevice) *unit {
	index := u.index + ":" + strconv.Itoa(m.Index)
	return &unit{
		hardware: hardware{gpu: u.gpu, mig: m}, index: index,
		// The last ref is the name of a MIG device in drivers before 470.
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

// memory returns the memory of the unit in bytes, 0 if it is unknown. MIG devices of one GPU
// instance share its memory in proportion to their slices.
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

// fault returns the fault of the hardware, nil if it works.
func (h hardware) fault() *gpu.Fault {
	if h.gpu.Fault == nil && h.mig != nil {
		return h.mig.Fault
	}
	return h.gpu.Fault
}

// hasName reports whether ref is a name of the unit or of its GPU.
func (u *unit) hasName(ref string) bool { return ref != "" && slices.Contains(u.refs, ref) }

// ambiguous reports whether ref is an index, "0" or "0:1", that may mean another GPU than it names now.
func (u *unit) ambiguous(ref string) bool {
	at, _, _ := strings.Cut(ref, ":")
	index, err := strconv.Atoi(at)
	return err == nil && u.gpu.Ambiguous(index)
}

// device returns the unit as a Device, without its health.
func (u *unit) device() Device {
	d := Device{
		UUID:     u.uuid(),
		Index:    u.index,
		Shifted:  u.gpu.Shifted || u.mig != nil && u.mig.Shifted,
		Reused:   u.gpu.Ambiguous(u.gpu.Index),
		GPU:      u.gpu.Index,
		Replicas: max(u.replicas, 1),
		MPS:      u.mps,
		NUMANode: u.gpu.NUMANode,
	}
	// The minors of failing hardware may be unknown.
	if u.fault() == nil {
		d.Paths = u.paths()
	}
	return d
}

// paths returns the device nodes. A MIG device needs the device node of its GPU, and the device
// nodes of its GPU instance and its compute instance, which grant access (MIG User
// Guide, "Device Nodes and Capabilities").
func (u *unit) paths() []string {
	paths := []string{"/dev/nvidia" + strconv.Itoa(u.gpu.Minor)}
	if u.mig == nil {
		return paths
	}
	const capability = "/dev/nvidia-caps/nvidia-cap"
	return append(paths,
		capability+strconv.Itoa(u.mig.GPUInstanceCap), capability+strconv.Itoa(u.mig.ComputeInstanceCap))
}

// health returns the status of the hardware. A fault counts even if the view does not have it.
func (h hardware) health(v health.View) health.Status {
	var s health.Status
	if h.mig == nil {
		s = v.OfWhole(h.gpu)
	} else {
		s = v.OfMIG(h.gpu.UUID, *h.mig)
	}
	if f := h.fault(); f != nil && s.Healthy {
		return health.Status{Kind: cause.DeviceFault, Reason: f.Error()}
	}
	return s
}
