package driverroot_test

import (
	"path"
	"testing"

	"outrigger.dev/pkg/driverroot"
)

// TestDriversOfDistributions finds drivers where distributions and their tools put them on the host.
func TestDriversOfDistributions(t *testing.T) {
	for name, d := range map[string]struct{ libraries, programs, firmware string }{
		"Debian":                       {"/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib/nvidia/current", "/lib/firmware"},
		"Ubuntu":                       {"/usr/lib/x86_64-linux-gnu", "/usr/bin", "/lib/firmware"},
		"Red Hat Enterprise Linux":     {"/usr/lib64", "/usr/bin", "/lib/firmware"},
		"Container-Optimized OS":       {"/var/lib/nvidia/lib64", "/var/lib/nvidia/bin", "/var/lib/nvidia/firmware"},
		"Google Kubernetes Engine":     {"/home/kubernetes/bin/nvidia/lib64", "/home/kubernetes/bin/nvidia/bin", "/home/kubernetes/bin/nvidia/firmware"},
		"Bottlerocket":                 {"/usr/lib/nvidia/tesla", "/usr/libexec/nvidia/tesla/bin", "/lib/firmware"},
		"Bottlerocket with a sys-root": {"/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia/tesla", "/usr/libexec/nvidia/tesla/bin", "/lib/firmware"},
		"Talos":                        {"/usr/local/lib", "/usr/local/bin", "/lib/firmware"},
		"Talos with glibc":             {"/usr/local/glibc/usr/lib", "/usr/local/bin", "/lib/firmware"},
		"Flatcar":                      {"/opt/nvidia/current/usr/lib64", "/opt/bin", "/lib/firmware"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.library(path.Join(d.libraries, "libcuda.so."+version), "libcuda.so.1")
			r.library(path.Join(d.libraries, "libnvidia-ml.so."+version), "libnvidia-ml.so.1")
			r.link(path.Join(d.libraries, "libnvidia-ml.so.1"), "libnvidia-ml.so."+version)
			r.file(path.Join(d.programs, "nvidia-smi"), 0o755, nil)
			r.file(path.Join(d.firmware, "nvidia", version, "gsp_ga10x.bin"), 0o644, nil)
			r.nodes()
			c := r.find()
			if c.Version != version || len(c.Libraries) != 2 || len(c.Binaries) != 1 || len(c.Firmware) != 1 {
				t.Errorf("%+v", c)
			}
			if file, err := r.root().FindLibrary(driverroot.NVML); err != nil || path.Base(file) != "libnvidia-ml.so."+version {
				t.Errorf("%s, %v", file, err)
			}
		})
	}
}
