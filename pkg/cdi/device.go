package cdi

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// All is the name of the device that contains every GPU and MIG device of a node, or all parts of
// one kind of optional hardware.
const All = "all"

// Device is a device of a spec, which a container can request by name.
type Device struct {
	Name  string
	Nodes []driverroot.DeviceNode
	// Env has variables, "NAME=value", for the containers that get the device.
	Env []string
	// Files are mounted into the containers that get the device.
	Files []driverroot.File
}

// Namer returns a name for a GPU, or for one of its MIG devices. It returns "" if the device gets
// no name.
type Namer func(g *gpu.GPU, m *gpu.MIGDevice) string

// ByUUID names the GPU g, or its MIG device m if that is not nil, by UUID.
func ByUUID(g *gpu.GPU, m *gpu.MIGDevice) string {
	if m != nil {
		return string(m.UUID)
	}
	return string(g.UUID)
}

// ByIndex returns the NVML index of the GPU g. If m is not nil, it returns the
// index of g and the index of its MIG device m: "0:1".
func ByIndex(g *gpu.GPU, m *gpu.MIGDevice) string {
	if m != nil {
		return fmt.Sprintf("%d:%d", g.Index, m.Index)
	}
	return fmt.Sprint(g.Index)
}

// ByType returns the type and the NVML index of the GPU g: "gpu0". If m is not nil, it
// returns the type and the indices of g and its MIG device m: "mig0:1".
func ByType(g *gpu.GPU, m *gpu.MIGDevice) string {
	if m != nil {
		return "mig" + ByIndex(g, m)
	}
	return "gpu" + ByIndex(g, m)
}

// ByPCI names the GPU g by its PCI bus ID in NVML's form, in lower case:
// "00000000:07:00.0". A MIG device has no bus ID and gets no name.
func ByPCI(g *gpu.GPU, m *gpu.MIGDevice) string {
	if m != nil {
		return ""
	}
	domain, rest, _ := strings.Cut(g.PCI.BusID, ":")
	return fmt.Sprintf("%08s:%s", domain, rest)
}

// ByPCIAddress names the GPU g by its PCI bus ID in the form of sysfs and "lspci -D": "0000:07:00.0". A
// MIG device has no bus ID and gets no name.
func ByPCIAddress(g *gpu.GPU, m *gpu.MIGDevice) string {
	if m != nil {
		return ""
	}
	return g.PCI.BusID
}

// Unresolved is a GPU or MIG device that works, but that the spec cannot describe. Containers
// cannot use it. It is an error with the fix.
type Unresolved struct {
	UUID   gpu.UUID
	Reason string
}

// Error returns the device and the reason.
func (u Unresolved) Error() string { return fmt.Sprintf("describe %s: %s", u.UUID, u.Reason) }

// Names returns the names that each Namer gives a GPU and its MIG devices.
func Names(g *gpu.GPU, names ...Namer) []string {
	var out []string
	for _, m := range append([]*gpu.MIGDevice{nil}, instances(g)...) {
		for _, name := range names {
			if text := name(g, m); text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}

// Devices returns the GPUs and their MIG devices, each once under each name that a Namer gives it.
// If there are any, it also returns the device All. A GPU in MIG mode is also a device, which
// contains all of its MIG devices.
//
// A device that fails is part of the result if its name and nodes are known, so that the spec does
// not change when a GPU fails or recovers. The second result has the working devices that lack a
// device node, or whose name CDI does not allow.
func Devices(gpus []gpu.GPU, c *driverroot.Content, names ...Namer) ([]Device, []Unresolved) {
	l := lister{content: c, names: names}
	for i := range gpus {
		l.gpu(&gpus[i])
	}
	if len(l.devices) > 0 {
		l.devices = append(l.devices, Device{Name: All, Nodes: Unique(l.all)})
	}
	return l.devices, l.unresolved
}

// lister collects devices.
type lister struct {
	content    *driverroot.Content
	names      []Namer
	devices    []Device
	unresolved []Unresolved
	// all holds the nodes of all devices.
	all []driverroot.DeviceNode
}

func (l *lister) gpu(g *gpu.GPU) {
	node, ok := l.content.GPUs[g.Minor]
	if !ok {
		l.noNode(g)
		return
	}
	whole := []driverroot.DeviceNode{node}
	for _, m := range instances(g) {
		caps := l.caps(g, m)
		if len(caps) == 0 {
			continue
		}
		nodes := append([]driverroot.DeviceNode{node}, caps...)
		if strings.Contains(m.Profile.Attribute, "gfx") {
			nodes = append(nodes, l.content.DRM[g.PCI.BusID]...)
		}
		l.add(g, m, nodes)
		whole = append(whole, caps...)
	}
	whole = append(whole, l.content.DRM[g.PCI.BusID]...)
	l.add(g, nil, Unique(whole))
}

// noNode adds a GPU without a device node, and its MIG devices, to the unresolved devices.
func (l *lister) noNode(g *gpu.GPU) {
	reason := fmt.Sprintf("device node nvidia%d is missing (make it: nvidia-modprobe -c %d)", g.Minor, g.Minor)
	l.missing(g.UUID, g.Fault, reason)
	for _, m := range instances(g) {
		l.missing(m.UUID, m.Fault, reason)
	}
}

func instances(g *gpu.GPU) []*gpu.MIGDevice {
	if g.MIG == nil {
		return nil
	}
	out := make([]*gpu.MIGDevice, 0, len(g.MIG.Devices))
	for i := range g.MIG.Devices {
		out = append(out, &g.MIG.Devices[i])
	}
	return out
}

// MIGCapabilities returns the devices "config" and "monitor", if they exist. They grant the right
// to change and to monitor the MIG instances of all GPUs.
func MIGCapabilities(c *driverroot.Content) []Device {
	var out []Device
	for _, d := range []struct {
		name  string
		minor int
	}{{"config", driverproc.MIGConfigMinor}, {"monitor", driverproc.MIGMonitorMinor}} {
		if node, ok := c.Caps[d.minor]; ok {
			out = append(out, Device{Name: d.name, Nodes: []driverroot.DeviceNode{node}})
		}
	}
	return out
}

// caps returns the device nodes of the capabilities of a MIG device, or none if one is missing.
func (l *lister) caps(g *gpu.GPU, m *gpu.MIGDevice) []driverroot.DeviceNode {
	dir := fmt.Sprintf("gpu%d/mig/gi%d", g.Minor, m.GPUInstance)
	var nodes []driverroot.DeviceNode
	var missing []string
	for _, c := range []struct {
		minor int
		path  string
	}{
		{m.GPUInstanceCap, dir},
		{m.ComputeInstanceCap, path.Join(dir, fmt.Sprintf("ci%d", m.ComputeInstance))},
	} {
		node, ok := l.content.Caps[c.minor]
		if ok && c.minor != driverproc.MIGConfigMinor && c.minor != driverproc.MIGMonitorMinor {
			nodes = append(nodes, node)
			continue
		}
		missing = append(missing, fmt.Sprintf(
			"device node nvidia-caps/nvidia-cap%d is missing (make it: nvidia-modprobe -f /proc/driver/nvidia/capabilities/%s/access)", c.minor, c.path))
	}
	if len(missing) > 0 {
		l.missing(m.UUID, m.Fault, strings.Join(missing, "; "))
		return nil
	}
	return nodes
}

// add adds the GPU, or its MIG device m if that is not nil, under all names.
func (l *lister) add(g *gpu.GPU, m *gpu.MIGDevice, nodes []driverroot.DeviceNode) {
	id, fault := g.UUID, g.Fault
	if m != nil {
		id, fault = m.UUID, m.Fault
	}
	// A GPU that does not answer may have no UUID. Such a GPU is not advertised.
	if id == "" {
		return
	}
	for _, name := range l.names {
		text := name(g, m)
		if text == "" {
			continue
		}
		if err := parser.ValidateDeviceName(text); err != nil {
			l.missing(id, fault, err.Error())
			continue
		}
		l.devices = append(l.devices, Device{Name: text, Nodes: nodes})
	}
	l.all = append(l.all, nodes...)
}

func (l *lister) missing(id gpu.UUID, fault *gpu.Fault, reason string) {
	if fault == nil {
		l.unresolved = append(l.unresolved, Unresolved{UUID: id, Reason: reason})
	}
}

// Unique returns the nodes in the order of their paths, each once.
func Unique(nodes []driverroot.DeviceNode) []driverroot.DeviceNode {
	slices.SortFunc(nodes, func(a, b driverroot.DeviceNode) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(nodes, func(a, b driverroot.DeviceNode) bool { return a.Path == b.Path })
}
