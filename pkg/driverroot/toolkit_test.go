package driverroot_test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/pkg/driverroot"
)

// toolkitFiles are what nvcdi of nvidia-container-toolkit v1.20.1 searches for in a driver
// installation, and what was in its spec for a node with all of the driver's libraries; test/nvcdi
// asks newer versions themselves. VERSION is that of the driver. A word with ".so" is a library, one without a slash a program.
const toolkitFiles = `
	nvidia-smi nvidia-debugdump nvidia-persistenced nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-imex nvidia-imex-ctl
	libEGL_nvidia.so.VERSION libGLESv1_CM_nvidia.so.VERSION libGLESv2_nvidia.so.VERSION libGLX_nvidia.so.VERSION
	libcuda.so.VERSION libcudadebugger.so.VERSION libnvcuvid.so.VERSION libnvidia-allocator.so.VERSION
	libnvidia-cfg.so.VERSION libnvidia-eglcore.so.VERSION libnvidia-encode.so.VERSION libnvidia-fbc.so.VERSION
	libnvidia-glcore.so.VERSION libnvidia-glsi.so.VERSION libnvidia-glvkspirv.so.VERSION libnvidia-gpucomp.so.VERSION
	libnvidia-ml.so.VERSION libnvidia-ngx.so.VERSION libnvidia-nvvm.so.VERSION libnvidia-opencl.so.VERSION
	libnvidia-opticalflow.so.VERSION libnvidia-pkcs11-openssl3.so.VERSION libnvidia-pkcs11.so.VERSION
	libnvidia-present.so.VERSION libnvidia-ptxjitcompiler.so.VERSION libnvidia-rtcore.so.VERSION libnvidia-tls.so.VERSION
	libnvidia-vksc-core.so.VERSION libnvidia-vulkan-producer.so.VERSION libnvoptix.so.VERSION vdpau/libvdpau_nvidia.so.VERSION
	libnvidia-nvvm70.so.4 libnvidia-egl-gbm.so.1.1.2 libnvidia-egl-wayland.so.1.1.20 libnvidia-egl-wayland2.so.1.0.1
	nvidia/xorg/nvidia_drv.so nvidia/xorg/libglxserver_nvidia.so.VERSION
	/usr/share/glvnd/egl_vendor.d/10_nvidia.json
	/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json /usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json
	/usr/share/egl/egl_external_platform.d/09_nvidia_wayland2.json
	/usr/share/nvidia/nvoptix.bin
	/usr/share/X11/xorg.conf.d/10-nvidia.conf /usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf
	/etc/OpenCL/vendors/nvidia.icd
	/etc/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.x86_64.json /etc/vulkan/icd.d/nvidia_layers.json
	/etc/vulkan/implicit_layer.d/nvidia_layers.json
	/lib/firmware/nvidia/VERSION/gsp_ga10x.bin /lib/firmware/nvidia/VERSION/gsp_tu10x.bin /lib/firmware/nvidia/VERSION/ucodes.bin`

// toolkitXorg are the folders in which it searches for the modules of X servers.
const toolkitXorg = `
	/usr/lib/x86_64-linux-gnu/nvidia/xorg
	/usr/lib/x86_64-linux-gnu/xorg/modules/drivers /usr/lib/x86_64-linux-gnu/xorg/modules/updates/drivers
	/usr/lib/xorg/modules/drivers /usr/lib/xorg/modules/updates/drivers
	/usr/lib64/xorg/modules/drivers /usr/lib64/xorg/modules/updates/drivers
	/usr/X11R6/lib/modules/drivers /usr/X11R6/lib/modules/updates/drivers
	/usr/X11R6/lib64/modules/drivers /usr/X11R6/lib64/modules/updates/drivers`

// put puts a file of toolkitFiles into the root, and returns its path.
func (r *rendered) put(name string) string {
	r.t.Helper()
	name = strings.ReplaceAll(name, "VERSION", version)
	switch {
	case strings.Contains(name, ".so"):
		if !strings.HasPrefix(name, "/") {
			name = path.Join("/usr/lib/x86_64-linux-gnu", name)
		}
		r.library(name, filepath.Base(name))
	case strings.HasPrefix(name, "/"):
		r.file(name, 0o644, nil)
	default:
		name = path.Join("/usr/bin", name)
		r.file(name, 0o755, nil)
	}
	return name
}

// paths returns where containers get the files of an installation.
func paths(c *driverroot.Content) []string {
	var out []string
	for _, l := range c.Libraries {
		out = append(out, l.Path)
	}
	for _, f := range slices.Concat(c.Binaries, c.Firmware, c.Configs, c.Sockets) {
		out = append(out, f.Path)
	}
	return out
}

func TestFindHasWhatTheContainerToolkitHas(t *testing.T) {
	r := newRendered(t)
	r.nodes()
	var want []string
	for name := range strings.FieldsSeq(toolkitFiles) {
		want = append(want, r.put(name))
	}
	got := paths(r.find())
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("%s is missing", p)
		}
	}
}

func TestFindSearchesXModulesWhereTheContainerToolkitDoes(t *testing.T) {
	for dir := range strings.FieldsSeq(toolkitXorg) {
		r := newRendered(t)
		r.driver()
		p := r.put(dir + "/nvidia_drv.so")
		if got := paths(r.find()); !slices.Contains(got, p) {
			t.Errorf("%s is missing", p)
		}
	}
}

// TestFindTakesVulkanFilesFromTheRoot has the installation of Google's Kubernetes Engine,
// where they are in no folder of configuration files.
func TestFindTakesVulkanFilesFromTheRoot(t *testing.T) {
	r := newRendered(t)
	r.driver()
	r.put("/vulkan/icd.d/nvidia_icd.json")
	if got := paths(r.find()); !slices.Contains(got, "/etc/vulkan/icd.d/nvidia_icd.json") {
		t.Errorf("found %q", got)
	}
}
