package driverroot_test

import (
	"slices"
	"strings"
	"testing"

	"outrigger.dev/pkg/driverroot"
)

func TestTableKnowsPartsByTheirPath(t *testing.T) {
	const lib, both, every = "/usr/lib/x86_64-linux-gnu/", "display,graphics", "compute,display,graphics,ngx,utility,video"
	for path, want := range map[string]string{
		lib + "libcuda.so." + version:                    "compute",
		lib + "libcuda.so.1":                             "compute",
		"/usr/lib64/libnvidia-ml.so.1":                   "utility",
		lib + "gbm/nvidia-drm_gbm.so":                    "compute",
		lib + "libGLX_indirect.so.0":                     both,
		lib + "vdpau/libvdpau_nvidia.so." + version:      "video",
		lib + "libnvidia-of-a-later-driver.so.999.1":     "",
		"/usr/bin/nvidia-smi":                            "utility",
		"/opt/nvidia/bin/nvidia-cuda-mps-server":         "compute",
		"/usr/bin/nvidia-imex":                           "",
		"/etc/OpenCL/vendors/nvidia.icd":                 "compute",
		"/etc/vulkan/icd.d/nvidia_icd.json":              both,
		"/lib/firmware/nvidia/" + version + "/gsp_a.bin": every,
		"/run/nvidia-persistenced/socket":                "utility",
		"/var/run/nvidia-fabricmanager/socket":           "utility",
		"/tmp/nvidia-mps":                                "compute",
		"/dev/nvidiactl":                                 every,
		"/dev/nvidia17":                                  every,
		"/dev/nvidia-caps/nvidia-cap30":                  every,
		"/dev/nvidia-uvm":                                "compute",
		"/dev/nvidia-uvm-tools":                          "compute",
		"/dev/nvidia-modeset":                            "display",
		"/dev/dri/renderD128":                            both,
	} {
		got, known := driverroot.NewTable().Capabilities(path)
		if got.String() != want || !known {
			t.Errorf("%s needs %q, known %v, want %q", path, got, known, want)
		}
	}
	for _, path := range []string{
		"/etc/cufile.json", "/run/udev", "/dev/infiniband/uverbs0", "/dev/nvidia-fs0", "/dev/gdrdrv", "/dev/nvidia-nvswitchctl",
		"/dev/nvidia-caps-imex-channels/channel0", "/usr/lib/libibverbs.so.1", "/etc/gsp.bin", "/data",
	} {
		if got, known := driverroot.NewTable().Capabilities(path); known {
			t.Errorf("%s is taken for a part of the driver that needs %q", path, got)
		}
	}
}

// What Find reports of a file is what the table says of its path.
func TestTableAgreesWithFind(t *testing.T) {
	r := newRendered(t)
	r.driver()
	table := driverroot.NewTable()
	c := r.find()
	files := slices.Concat(c.Binaries, c.Firmware, c.Configs, c.Sockets)
	for _, l := range c.Libraries {
		files = append(files, l.File)
		for _, name := range l.Names {
			files = append(files, driverroot.File{Path: "/usr/lib64/" + name, Capabilities: l.Capabilities})
		}
	}
	if len(files) == 0 {
		t.Fatal("the driver has no file")
	}
	for _, f := range files {
		got, known := table.Capabilities(f.Path)
		if got != f.Capabilities || !known && strings.HasPrefix(f.Path, "/usr/lib") {
			t.Errorf("%s needs %q, known %v, want %q", f.Path, got, known, f.Capabilities)
		}
	}
}

func TestParseCapabilities(t *testing.T) {
	got, err := driverroot.ParseCapabilities("utility", "compat32", "compute")
	if err != nil || got != driverroot.Compute|driverroot.Utility {
		t.Errorf("ParseCapabilities() = %s, %v, want compute,utility", got, err)
	}
	if _, err := driverroot.ParseCapabilities("compute", "magic"); err == nil || !strings.Contains(err.Error(), `"magic"`) {
		t.Errorf("error is %v, want one that names magic", err)
	}
}

func TestCapabilitiesAdmitParts(t *testing.T) {
	some := driverroot.Compute | driverroot.Utility
	for name, c := range map[string]struct {
		have, part driverroot.Capabilities
		want       bool
	}{
		"one of them":                        {some, driverroot.Utility | driverroot.Video, true},
		"none of them":                       {some, driverroot.Graphics, false},
		"a part of no capability":            {some, 0, false},
		"a part of no capability, for all":   {driverroot.EveryCapability, 0, true},
		"nothing wanted, a part of no class": {0, 0, false},
	} {
		if got := c.have.Admits(c.part); got != c.want {
			t.Errorf("%s: %q admits %q: %v, want %v", name, c.have, c.part, got, c.want)
		}
	}
}
