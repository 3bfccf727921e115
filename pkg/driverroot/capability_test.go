package driverroot_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/driverroot"
)

// The expected values are those of libnvidia-container, which mounts by
// capability.
func TestPartsHaveTheirCapabilities(t *testing.T) {
	const lib, both = "/usr/lib/x86_64-linux-gnu/", "display,graphics"
	want := map[string]string{
		lib + "libcuda.so." + version:                         "compute",
		lib + "libcudadebugger.so." + version:                 "compute",
		lib + "libnvidia-nvvm.so." + version:                  "compute",
		lib + "libnvidia-nvvm70.so.4":                         "compute",
		lib + "libnvidia-ptxjitcompiler.so." + version:        "compute",
		lib + "libnvidia-ml.so." + version:                    "utility",
		lib + "libnvidia-cfg.so." + version:                   "utility",
		lib + "libnvcuvid.so." + version:                      "video",
		lib + "libnvidia-encode.so." + version:                "video",
		lib + "vdpau/libvdpau_nvidia.so." + version:           "video",
		lib + "libGLX_nvidia.so." + version:                   both,
		lib + "libnvidia-egl-wayland.so.1.1.20":               both,
		lib + "libnvidia-eglcore.so." + version:               both,
		lib + "libnvoptix.so." + version:                      both,
		lib + "nvidia/xorg/libglxserver_nvidia.so." + version: both,
		"/usr/lib/xorg/modules/drivers/nvidia_drv.so":         both,
		lib + "libnvidia-ngx.so." + version:                   "ngx",
		lib + "libnvidia-of-a-later-driver.so." + version:     "",
		"/usr/bin/nvidia-smi":                                 "utility",
		"/usr/bin/nvidia-cuda-mps-server":                     "compute",
		"/usr/bin/nvidia-imex":                                "",
		"/etc/OpenCL/vendors/nvidia.icd":                      "compute",
		"/etc/vulkan/icd.d/nvidia_icd.json":                   both,
		"/usr/share/nvidia/nvoptix.bin":                       both,
		"/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin":  "compute,display,graphics,ngx,utility,video",
		"/tmp/nvidia-mps":                                     "compute",
	}
	r := newRendered(t)
	r.nodes()
	for p := range want {
		switch {
		case strings.Contains(p, ".so"):
			r.library(p, filepath.Base(p))
		case p == "/tmp/nvidia-mps":
			r.folder(p)
		default:
			r.file(p, 0o755, nil)
		}
	}
	c := r.find()
	got := map[string]string{}
	for _, f := range slices.Concat(c.Binaries, c.Firmware, c.Configs, c.Sockets) {
		got[f.Path] = f.Capabilities.String()
	}
	for _, l := range c.Libraries {
		got[l.Path] = l.Capabilities.String()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("capabilities (-want +got):\n%s", d)
	}
	if got := c.Capabilities().String(); got != "compute,display,graphics,ngx,utility,video" {
		t.Errorf("the installation has the capabilities %s, want all", got)
	}
	if got := (&driverroot.Content{Libraries: c.Libraries[:1]}).Capabilities(); got != c.Libraries[0].Capabilities {
		t.Errorf("an installation with one library has the capabilities %s", got)
	}
}

func TestWatchedFoldersShowWhatOutdatedNotices(t *testing.T) {
	r := newRendered(t)
	r.driver()
	for _, dir := range []string{"tmp", "run", "usr/bin", "host/dev", "opt"} {
		r.folder(dir)
	}
	c := r.find()
	for _, dir := range []string{
		"usr/lib/x86_64-linux-gnu", "dev", "host/dev", "usr/bin",
		// These are the folders in which missing ones would appear.
		"opt", "run", "usr", "",
	} {
		if !slices.Contains(c.Watched(), filepath.Join(r.dir, dir)) {
			t.Errorf("watched are %q, want %s among them", c.Watched(), dir)
		}
	}
	if slices.Contains(c.Watched(), filepath.Join(r.dir, "tmp")) {
		t.Error("tmp is watched, in which files come and go all the time")
	}
	x := r.root().FindExtras()
	if got := x.Watched(); !slices.Contains(got, filepath.Join(r.dir, "dev")) || slices.Contains(got, filepath.Join(r.dir, "usr/bin")) {
		t.Errorf("watched for the extras are %q, want dev and no folder of the driver's files", got)
	}
	if got := (&driverroot.Content{}).Watched(); len(got) > 0 {
		t.Errorf("watched for no driver root are %q", got)
	}
}
