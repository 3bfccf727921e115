package stack

import "strings"

// InTree returns the modules of the kernel's own drivers for NVIDIA's GPUs.
func InTree() []string { return []string{"nouveau", "nova_core"} }

// ModuleOfDriver returns the module of a driver on the PCI bus. The one of nova_core is called
// NovaCore there.
func ModuleOfDriver(driver string) string {
	if driver == "NovaCore" {
		return "nova_core"
	}
	return strings.ReplaceAll(driver, "-", "_")
}
