package label

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// bus sets the labels that need no driver. Whether GPUs that are not on a PCI bus
// are virtual is not known.
func (l labels) bus(f Facts) {
	l.text("gpu.machine", cmp.Or(clean(f.Machine), unknown))
	l.put("gpu.mode", mode(gpus(f.Node, f.PCI)))
	if len(gpus(nil, f.PCI)) > 0 {
		l.vgpu(f.PCI)
	}
}

// gpus returns the GPUs on the bus, with a node only those that the driver
// knows: others may be passed on to virtual machines, or serve a display.
func gpus(n *gpu.Node, bus []pci.Device) []pci.Device {
	var out []pci.Device
	for _, d := range bus {
		known := n == nil || slices.ContainsFunc(n.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == d.BusID })
		if d.GPU() && known {
			out = append(out, d)
		}
	}
	return out
}

// mode says what GPUs are for: those that can drive a display are of another
// class on the bus than those that cannot.
func mode(gpus []pci.Device) string {
	const display, accelerator = 0x030000, 0x030200
	all := func(class uint32) bool {
		return len(gpus) > 0 && !slices.ContainsFunc(gpus, func(d pci.Device) bool { return d.Class != class })
	}
	switch {
	case all(display):
		return "graphics"
	case all(accelerator):
		return "compute"
	default:
		return unknown
	}
}

// vgpu sets the labels of virtual GPUs, those of the hypervisor's driver from the
// first that tells. That there is none can be said only if the bus shows what
// each GPU can do, which it does to privileged processes.
func (l labels) vgpu(bus []pci.Device) {
	known, present := true, false
	var version, branch string
	for _, d := range gpus(nil, bus) {
		known = known && d.VGPU.Known
		if d.VGPU.Known && d.VGPU.Present {
			present = true
			version, branch = cmp.Or(version, d.VGPU.HostDriverVersion), cmp.Or(branch, d.VGPU.HostDriverBranch)
		}
	}
	switch {
	case present:
		l.put("vgpu.present", "true")
		l.text("vgpu.host-driver-version", version)
		l.text("vgpu.host-driver-branch", branch)
	case known:
		l.put("vgpu.present", "false")
	}
}
