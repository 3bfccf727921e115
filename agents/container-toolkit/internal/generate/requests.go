// Package generate defines the CDI specs of the container toolkit, with their kinds and names.
// It keeps them up to date on a node, together with the facts that the runtime shim needs.
// Package pkg/cdi derives the specs.
//
// # Kinds
//
// The vendor is nvidia.com, unless it is configured:
//
//	nvidia.com/gpu             GPUs and MIG devices, "all", and "none" (driver files only)
//	management.nvidia.com/gpu  "all": every device node of the driver, for pods that manage a node
//	management.nvidia.com/mig  "config" and "monitor": the capabilities to change and to watch MIG instances
//	nvidia.com/imex-channel    one device for each channel: "channel0", and "0"
//	nvidia.com/gds, mofed, gdrcopy, nvswitch  "all"
package generate

import (
	"fmt"
	"maps"
	"slices"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Vendor and Class are the vendor and the class of GPUs, as in NVIDIA's container toolkit.
const (
	Vendor = "nvidia.com"
	Class  = "gpu"
)

// Mode is a mode of nvidia-ctk cdi generate. It selects the content of a spec.
type Mode string

// The modes.
const (
	GPUs       Mode = "nvml"
	Management Mode = "management"
	IMEX       Mode = "imex"
	GDS        Mode = "gds"
	MOFED      Mode = "mofed"
	GDRCopy    Mode = "gdrcopy"
	NVSwitch   Mode = "nvswitch"
	// MIG is not a mode of nvidia-ctk. It describes the MIG capabilities that belong to no
	// GPU.
	MIG Mode = "mig"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{GPUs, Management, MIG, IMEX, GDS, MOFED, GDRCopy, NVSwitch} }

// Options describe specs. The zero value has the defaults.
type Options struct {
	// Vendor and Class replace the vendor and the class of GPUs. The kinds of the other modes
	// have the same vendor.
	Vendor, Class string
	// Names return the names of a GPU. Default: index, UUID and both forms of the PCI bus ID.
	Names []cdi.Namer
	// NoAll omits the device "all" of GPUs.
	NoAll bool
	// Only has the GPUs and MIG devices to describe, each by one of its names. Empty means
	// all GPUs and MIG devices.
	Only []string
	// HookPath, OneHook, LdconfigPath and Features are fields of cdi.Options.
	HookPath     string
	OneHook      bool
	LdconfigPath string
	Features     cdi.Features
}

// Kind returns the CDI kind of a mode.
func (o Options) Kind(m Mode) string {
	vendor, class := o.vendor(), o.Class
	if class == "" {
		class = Class
	}
	switch m {
	case GPUs:
		return vendor + "/" + class
	case Management:
		return "management." + vendor + "/" + class
	case MIG:
		return "management." + vendor + "/mig"
	case IMEX:
		return vendor + "/imex-channel"
	default:
		return vendor + "/" + string(m)
	}
}

func (o Options) vendor() string {
	if o.Vendor == "" {
		return Vendor
	}
	return o.Vendor
}

// Kinds returns the CDI kinds of the modes.
func (o Options) Kinds(modes ...Mode) []string {
	out := make([]string, 0, len(modes))
	for _, m := range modes {
		out = append(out, o.Kind(m))
	}
	return out
}

// Requests returns the requests for the specs of the modes.
func (o Options) Requests(modes ...Mode) []cdi.Request {
	out := make([]cdi.Request, 0, len(modes))
	for _, m := range modes {
		out = append(out, o.request(m))
	}
	return out
}

func (o Options) request(m Mode) cdi.Request {
	r := cdi.Request{Options: cdi.Options{
		Kind: o.Kind(m), HookPath: o.HookPath, OneHook: o.OneHook, LdconfigPath: o.LdconfigPath, Features: o.Features,
	}}
	switch m {
	case GPUs:
		r.Devices = o.gpus
	case Management:
		r.DisabledHooks = append(slices.Clone(r.DisabledHooks), cdi.GPUHooks()...)
		r.Devices = driverDevices(management)
	default:
		// A container gets these devices together with a GPU, whose spec has the driver files.
		r.Bare = true
		r.Devices = driverDevices(func(c *driverroot.Content) []cdi.Device { return extra(m, c) })
	}
	return r
}

// devices is the type of cdi.Request.Devices.
type devices = func(*driverroot.Content, []gpu.GPU) ([]cdi.Device, []cdi.Unresolved)

// driverDevices returns devices that depend only on the driver.
func driverDevices(list func(*driverroot.Content) []cdi.Device) devices {
	return func(c *driverroot.Content, _ []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) { return list(c), nil }
}

// names returns the functions that name a GPU.
func (o Options) names() []cdi.Namer {
	if len(o.Names) > 0 {
		return o.Names
	}
	return []cdi.Namer{cdi.ByIndex, cdi.ByUUID, cdi.ByPCI, cdi.ByPCIAddress}
}

// gpus returns the devices of the GPUs' spec. If one device cannot be described, it returns
// no devices: with an incomplete spec, a container could start without one of its GPUs.
func (o Options) gpus(c *driverroot.Content, gpus []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) {
	out, unresolved := cdi.Devices(gpus, c, o.names()...)
	if len(o.Only) > 0 {
		out, unresolved = o.selectDevices(gpus, out, unresolved)
	}
	if len(unresolved) > 0 {
		return nil, unresolved
	}
	if o.NoAll {
		out = slices.DeleteFunc(out, func(d cdi.Device) bool { return d.Name == cdi.All })
	}
	if len(out) == 0 {
		return nil, nil
	}
	return append(out, cdi.Device{Name: "none", Env: []string{"NVCT_EMPTY_DEVICE="}}), nil
}

// management returns the device with every node of the driver.
func management(c *driverroot.Content) []cdi.Device {
	nodes := slices.Clone(c.Control)
	for _, more := range []map[int]driverroot.DeviceNode{c.GPUs, c.Caps, c.Extras.IMEX} {
		nodes = slices.AppendSeq(nodes, maps.Values(more))
	}
	return []cdi.Device{{Name: cdi.All, Nodes: nodes}}
}

// extra returns the devices of optional hardware, and the MIG capabilities.
func extra(m Mode, c *driverroot.Content) []cdi.Device {
	switch m {
	case IMEX:
		return channels(c.Extras.IMEX)
	case GDS:
		return cdi.Whole(c.Extras.GDS)
	case MOFED:
		return cdi.Whole(c.Extras.MOFED)
	case GDRCopy:
		return cdi.Whole(c.Extras.GDRCopy)
	case NVSwitch:
		return cdi.Whole(c.Extras.NVSwitch)
	case MIG:
		return cdi.MIGCapabilities(c)
	case GPUs, Management:
		// GPUs are not optional hardware.
	}
	return nil
}

// channels returns the IMEX channels. Each has two names: the name of its device node, and its
// number, as in the device plugin.
func channels(nodes map[int]driverroot.DeviceNode) []cdi.Device {
	var out []cdi.Device
	for n, node := range nodes {
		for _, name := range []string{fmt.Sprintf("channel%d", n), fmt.Sprint(n)} {
			out = append(out, cdi.Device{Name: name, Nodes: []driverroot.DeviceNode{node}})
		}
	}
	return out
}
