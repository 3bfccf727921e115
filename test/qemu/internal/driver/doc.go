// Package driver tests the driver loader in a guest, which has a GPU on its PCI bus by name
// only, built stand-ins for NVIDIA's modules on its disk, and no compiler.
package driver
