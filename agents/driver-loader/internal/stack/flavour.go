package stack

import (
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/pkg/pci"
)

// The first PCI product IDs of two generations. The IDs of NVIDIA's generations are in ascending
// order. They are from the README of NVIDIA's open-gpu-kernel-modules.
const (
	firstTuring    = 0x1e00
	firstBlackwell = 0x2900
)

// graceHopper reports whether a GPU is coupled to a Grace CPU.
func graceHopper(product uint16) bool {
	return product >= 0x2340 && product < 0x2350
}

// Unsupported returns why the modules of a flavour do not support a GPU, or "".
func Unsupported(f payload.Flavour, gpu pci.Device) string {
	switch {
	case f == payload.Open && gpu.Product < firstTuring:
		return "it is older than Turing, and the open modules support only Turing and later"
	case f == payload.Proprietary && gpu.Product >= firstBlackwell:
		return "it is Blackwell or later, which only the open modules support"
	case f == payload.Proprietary && graceHopper(gpu.Product):
		return "it is coupled to a Grace CPU, which only the open modules support"
	}
	return ""
}
