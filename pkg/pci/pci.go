// Package pci sees NVIDIA's devices on the PCI bus, through sysfs: it needs no
// driver and no privileges. It is the edge by which an agent knows that a node
// has GPUs before anything else works there, and when one comes or goes.
package pci

// Device is one PCI device of NVIDIA.
type Device struct {
	// BusID is the address as the kernel writes it, "0000:17:00.0".
	BusID           string
	Vendor, Product uint16
	// Class has 24 bits: base class, sub-class, programming interface.
	Class uint32
	// Driver is the name of the bound kernel driver, "" without one.
	Driver string
	VGPU   VGPU
}

// VGPU is what the configuration space says of a virtual GPU.
type VGPU struct {
	// Known is false where the capabilities cannot be read: without privileges
	// the kernel gives only the first 64 bytes.
	Known, Present bool
	// HostDriverVersion and HostDriverBranch are those of the hypervisor's vGPU
	// manager, such as "460.16" and "r460_00"; "" where it does not say.
	HostDriverVersion, HostDriverBranch string
}

// GPU reports whether the device is a GPU: a display controller, or a
// processing accelerator.
func (d Device) GPU() bool {
	return d.Class>>16 == 0x03 || d.Class>>8 == 0x0b40
}
