// Package pci reads NVIDIA's devices on the PCI bus from sysfs, and reports when a device appears
// or disappears. It needs no driver and no privileges, so an agent can detect GPUs before anything
// else works on a node.
package pci

import "path/filepath"

// nvidia is NVIDIA's vendor ID for GPUs. Mellanox is its vendor ID for network adapters.
const (
	nvidia   = 0x10de
	Mellanox = 0x15b3
)

// Device is one PCI device of NVIDIA.
type Device struct {
	// BusID is the address in the form of the kernel: "0000:17:00.0".
	BusID           string
	Vendor, Product uint16
	// Class has 24 bits: base class, sub-class, programming interface.
	Class uint32
	// Driver is the name of the bound kernel driver, "" without one.
	Driver string
	VGPU   VGPU
}

// GPU reports whether the device is a GPU: a display controller, or a processing accelerator.
func (d Device) GPU() bool {
	return d.Class>>16 == 0x03 || d.Class>>8 == 0x0b40
}

// devicesDir is the folder of sysfs with an entry for each PCI device.
func devicesDir(sysRoot string) string { return filepath.Join(sysRoot, "bus/pci/devices") }
