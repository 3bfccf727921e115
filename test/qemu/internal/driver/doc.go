// Package driver tests the driver loader in a guest. The guest has a GPU on its PCI bus by name
// only, built stand-ins for NVIDIA's modules on its disk, and no compiler.
package driver
