package stack

import "strings"

// InTree returns the modules of the kernel's own drivers for NVIDIA's GPUs.
func InTree() []string { return []string{"nouveau", "nova_core"} }

// ModuleOfDriver returns the module of a PCI driver. The PCI driver of nova_core is named NovaCore.
func ModuleOfDriver(driver string) string {
	if driver == "NovaCore" {
		return "nova_core"
	}
	return strings.ReplaceAll(driver, "-", "_")
}
