package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/pkg/pci"
)

// Real returns why a machine must not simulate GPUs: it has an NVIDIA GPU, or NVIDIA's driver. proc and sys
// are the kernel's own file systems, as a container without the host's folders sees them: simulated GPUs are not
// in them.
func Real(proc, sys string) (string, error) {
	if _, err := os.Stat(filepath.Join(proc, "driver/nvidia/version")); err == nil {
		return "NVIDIA's driver is loaded", nil
	}
	modules, err := os.ReadFile(filepath.Join(proc, "modules"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without modules has no file
		return "", fmt.Errorf("find NVIDIA's driver: %w", err)
	}
	for line := range strings.Lines(string(modules)) {
		if name, _, _ := strings.Cut(line, " "); name == "nvidia" || name == "nouveau" || name == "nova_core" {
			return fmt.Sprintf("the kernel module %s is loaded", name), nil
		}
	}
	devices, err := pci.Scan(sys)
	for _, d := range devices {
		if d.GPU() {
			return fmt.Sprintf("the PCI device %s is an NVIDIA GPU", d.BusID), nil
		}
	}
	return "", err
}
