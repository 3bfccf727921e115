package daemon_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/daemon"
)

func TestReal(t *testing.T) {
	const gpu, nic = "0x030200\n", "0x020000\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a plain machine": {map[string]string{"proc/modules": "ext4 1 0 - Live 0x0\n", "sys/bus/pci/devices/0000:00:1f.0/class": nic, "sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086\n"}, ""},
		"another display": {map[string]string{"sys/bus/pci/devices/0000:00:02.0/class": gpu, "sys/bus/pci/devices/0000:00:02.0/vendor": "0x1002\n", "sys/bus/pci/devices/0000:00:02.0/device": "0x1\n"}, ""},
		"a driver":        {map[string]string{"proc/driver/nvidia/version": "NVRM"}, "NVIDIA's driver is loaded"},
		"a module":        {map[string]string{"proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n"}, "the kernel module nvidia is loaded"},
		"a similar name":  {map[string]string{"proc/modules": "nvidiafb 1 0 - Live 0x0\n"}, ""},
		"a gpu": {map[string]string{
			"sys/bus/pci/devices/0000:65:00.0/class": gpu, "sys/bus/pci/devices/0000:65:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:65:00.0/device": "0x2330\n",
		}, "the PCI device 0000:65:00.0 is an NVIDIA GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			assert.NilError(t, os.MkdirAll(filepath.Join(root, "sys/bus/pci/devices"), 0o755))
			for path, text := range c.files {
				path = filepath.Join(root, path)
				assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			got, err := daemon.Real(filepath.Join(root, "proc"), filepath.Join(root, "sys"))
			assert.NilError(t, err)
			assert.Equal(t, got, c.want)
		})
	}
}
