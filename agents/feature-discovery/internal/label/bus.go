package label

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// bus sets the labels that need no driver. GPUs that are not on a PCI bus get no
// vGPU labels.
func (l labels) bus(f Facts) {
	l.text("gpu.machine", cmp.Or(clean(f.Machine), unknown))
	l.put("gpu.mode", mode(gpus(f.Node, f.PCI)))
	if len(gpus(nil, f.PCI)) > 0 {
		l.vgpu(f.PCI)
	}
}

// gpus returns the GPUs on the bus. If n is set, it returns only the GPUs that the driver
// manages. Other GPUs may be passed through to virtual machines, or drive a display.
func gpus(n *gpu.Node, bus []pci.Device) []pci.Device {
	var out []pci.Device
	for _, d := range bus {
		managed := n == nil || slices.ContainsFunc(n.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == d.BusID })
		if d.GPU() && managed {
			out = append(out, d)
		}
	}
	return out
}

// mode returns the purpose of the GPUs, by their PCI class: GPUs that can drive a display have
// another class than GPUs that cannot.
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

// vgpu sets the labels of virtual GPUs. The labels of the hypervisor's driver come
// from the first GPU that reports them. vgpu sets vgpu.present=false only if the
// capabilities of every GPU can be read, which needs privileges.
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
