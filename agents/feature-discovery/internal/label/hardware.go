package label

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"outrigger.dev/pkg/gpu"
)

// hardware has the GPUs and MIG devices of a node, even if they are not advertised.
type hardware struct {
	// products is ordered by the first GPU of each product.
	products []*product
	// devices has the MIG devices whose product and profile are known, in the order of the
	// node.
	devices []migDevice
}

// product is a GPU model and its GPUs, ordered by index.
type product struct {
	// name is NVML's name without characters that a label cannot contain, of any
	// length.
	name string
	gpus []*gpu.GPU
}

// migDevice is a MIG device of a node.
type migDevice struct {
	*gpu.MIGDevice
	// place is its index in a resource.Set.
	place   string
	product *product
}

// newHardware groups the hardware of a node. It ignores a GPU that fails before its name is
// read.
func newHardware(n *gpu.Node) hardware {
	byIndex := make([]*gpu.GPU, 0, len(n.GPUs))
	for i := range n.GPUs {
		byIndex = append(byIndex, &n.GPUs[i])
	}
	slices.SortFunc(byIndex, func(a, b *gpu.GPU) int { return cmp.Compare(a.Index, b.Index) })
	var h hardware
	for _, g := range byIndex {
		if g.Name == "" && g.Fault != nil {
			continue
		}
		p := h.product(cmp.Or(clean(g.Name), unknown))
		p.gpus = append(p.gpus, g)
		h.devices = append(h.devices, migDevices(g, p)...)
	}
	return h
}

// product returns the product with this name, and adds it if it is missing.
func (h *hardware) product(name string) *product {
	i := slices.IndexFunc(h.products, func(p *product) bool { return p.name == name })
	if i < 0 {
		i = len(h.products)
		h.products = append(h.products, &product{name: name})
	}
	return h.products[i]
}

// migDevices returns the MIG devices of a GPU, ordered by index.
func migDevices(g *gpu.GPU, p *product) []migDevice {
	if !inMIGMode(g) {
		return nil
	}
	var out []migDevice
	for i := range g.MIG.Devices {
		d := &g.MIG.Devices[i]
		// Only a device that failed has an invalid profile.
		if _, err := gpu.ParseProfile(d.Profile.String()); err == nil {
			out = append(out, migDevice{MIGDevice: d, place: strconv.Itoa(g.Index) + ":" + strconv.Itoa(d.Index), product: p})
		}
	}
	slices.SortFunc(out, func(a, b migDevice) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

func inMIGMode(g *gpu.GPU) bool { return g.MIG != nil && g.MIG.Enabled }

// migCapable reports whether a GPU of the node supports MIG, and whether that is known. It is
// unknown if no GPU is known to support MIG, and all GPUs of some product failed before their
// capabilities were read.
func (h hardware) migCapable() (capable, known bool) {
	known = true
	for _, p := range h.products {
		capable = capable || slices.ContainsFunc(p.gpus, func(g *gpu.GPU) bool { return g.MIG != nil })
		known = known && slices.ContainsFunc(p.gpus, func(g *gpu.GPU) bool { return g.Fault == nil || g.ComputeCapability.Major > 0 })
	}
	return capable, capable || known
}

// largest returns the product with the most GPUs among the products that ok accepts. It returns
// the first among equals, and nil if ok accepts no product.
func (h hardware) largest(ok func(*product) bool) *product {
	var most *product
	for _, p := range h.products {
		if ok(p) && (most == nil || len(p.gpus) > len(most.gpus)) {
			most = p
		}
	}
	return most
}

// devicesWhere returns the MIG devices that ok accepts.
func (h hardware) devicesWhere(ok func(migDevice) bool) class {
	var out class
	for _, d := range h.devices {
		if ok(d) {
			out = append(out, d)
		}
	}
	return out
}

// sameClass reports whether another device has the same product and profile.
func (d migDevice) sameClass(o migDevice) bool {
	return d.product == o.product && d.Profile == o.Profile
}

// whole returns the places in a resource.Set of the GPUs that are not in MIG mode.
func (p *product) whole() []string {
	var out []string
	for _, g := range p.gpus {
		if !inMIGMode(g) {
			out = append(out, strconv.Itoa(g.Index))
		}
	}
	return out
}

// memory returns the memory of the first GPU that reports it, or 0 if no GPU does.
func (p *product) memory() uint64 {
	for _, g := range p.gpus {
		if g.MemoryBytes > 0 {
			return g.MemoryBytes
		}
	}
	return 0
}

// capability returns the compute capability of the first GPU that reports it.
func (p *product) capability() gpu.Version {
	for _, g := range p.gpus {
		if g.ComputeCapability.Major > 0 {
			return g.ComputeCapability
		}
	}
	return gpu.Version{}
}

// class is a set of similar MIG devices, in the order of the node. It is not empty.
type class []migDevice

// profiles groups devices by their profile.
func profiles(devices []migDevice) []class {
	return group(devices, func(d migDevice) string { return d.Profile.String() })
}

// kinds groups devices by their profile and product.
func kinds(devices []migDevice) []class {
	return group(devices, func(d migDevice) string { return d.Profile.String() + " " + d.product.name })
}

func group(devices []migDevice, by func(migDevice) string) []class {
	groups := map[string]class{}
	for _, d := range devices {
		groups[by(d)] = append(groups[by(d)], d)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b class) int {
		return cmp.Compare(slices.Index(devices, a[0]), slices.Index(devices, b[0]))
	})
}

// largest returns the class with the most devices, and the first on the node among equals.
func largest(classes []class) class {
	return slices.MaxFunc(classes, func(a, b class) int { return cmp.Compare(len(a), len(b)) })
}

// places returns the indices of the class's devices in a resource.Set.
func (c class) places() []string {
	out := make([]string, 0, len(c))
	for _, d := range c {
		out = append(out, d.place)
	}
	return out
}

// memory returns the memory of the first device that reports it, or 0 if no device does.
func (c class) memory() uint64 {
	for _, d := range c {
		if d.MemoryBytes > 0 {
			return d.MemoryBytes
		}
	}
	return 0
}

// engines returns the engines of the first device that reports them.
func (c class) engines() gpu.Engines {
	for _, d := range c {
		if d.Engines != (gpu.Engines{}) {
			return d.Engines
		}
	}
	return gpu.Engines{}
}
