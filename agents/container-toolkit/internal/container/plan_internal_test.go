package container

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
)

// content is a driver in /run/nvidia/driver, in the folders of Red Hat's family.
func content() *driverroot.Content {
	const root, version = "/run/nvidia/driver", "580.95.05"
	file := func(p string, c driverroot.Capabilities) driverroot.File {
		return driverroot.File{HostPath: root + p, Path: p, Capabilities: c}
	}
	library := func(p string, c driverroot.Capabilities, names ...string) driverroot.Library {
		return driverroot.Library{File: file(p+"."+version, c), Names: names}
	}
	node := func(p string) driverroot.DeviceNode { return driverroot.DeviceNode{HostPath: p, Path: p} }
	screen := driverroot.Graphics | driverroot.Display
	return &driverroot.Content{
		Version: version,
		Libraries: []driverroot.Library{
			library("/usr/lib64/libGLX_nvidia.so", screen, "libGLX_nvidia.so.0", "libGLX_indirect.so.0"),
			library("/usr/lib64/libcuda.so", driverroot.Compute, "libcuda.so.1", "libcuda.so"),
			library("/usr/lib64/libnvidia-allocator.so", driverroot.Compute, "libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"),
			library("/usr/lib64/libnvidia-ml.so", driverroot.Utility, "libnvidia-ml.so.1"),
			library("/usr/lib64/libnvidia-new.so", 0),
			library("/usr/lib64/vdpau/libvdpau_nvidia.so", driverroot.Video),
			library("/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so", screen),
		},
		Binaries: []driverroot.File{
			file("/usr/local/bin/nvidia-smi", driverroot.Utility),
			file("/usr/bin/nvidia-cuda-mps-control", driverroot.Compute),
			file("/usr/bin/nvidia-xconfig", 0),
		},
		Firmware: []driverroot.File{file("/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin", driverroot.EveryCapability)},
		Configs:  []driverroot.File{{HostPath: root + "/usr/share/OpenCL/vendors/nvidia.icd", Path: "/etc/OpenCL/vendors/nvidia.icd", Capabilities: driverroot.Compute}},
		Sockets: []driverroot.File{
			{HostPath: root + "/run/nvidia-persistenced/socket", Path: "/run/nvidia-persistenced/socket", Capabilities: driverroot.Utility},
			{HostPath: "/tmp/nvidia-mps", Path: "/tmp/nvidia-mps", Capabilities: driverroot.Compute},
		},
		Control: []driverroot.DeviceNode{node("/dev/nvidia-modeset"), node("/dev/nvidia-uvm"), node("/dev/nvidia-uvm-tools"), node("/dev/nvidiactl")},
		GPUs:    map[int]driverroot.DeviceNode{0: node("/dev/nvidia0"), 5: node("/dev/nvidia5")},
		DRM:     map[string][]driverroot.DeviceNode{"0000:1b:00.0": {node("/dev/dri/card1"), node("/dev/dri/renderD129")}},
		Caps: map[int]driverroot.DeviceNode{
			1: node("/dev/nvidia-caps/nvidia-cap1"), 2: node("/dev/nvidia-caps/nvidia-cap2"),
			21: node("/dev/nvidia-caps/nvidia-cap21"), 23: node("/dev/nvidia-caps/nvidia-cap23"),
		},
		Extras: driverroot.Extras{IMEX: map[int]driverroot.DeviceNode{3: node("/dev/nvidia-caps-imex-channels/channel3")}},
	}
}

// text shows a plan.
func (p *Plan) text() string {
	var b strings.Builder
	for _, n := range p.Nodes {
		fmt.Fprintln(&b, "node", n.Path)
	}
	for _, f := range p.Files {
		fmt.Fprintln(&b, "file", f.HostPath, "at", f.Path)
	}
	for _, f := range p.Sockets {
		fmt.Fprintln(&b, "socket", f.HostPath, "at", f.Path)
	}
	for _, l := range p.Links {
		fmt.Fprintln(&b, "link", l.Path, "to", l.Target)
	}
	fmt.Fprintln(&b, "proc", p.Proc.GPUs, p.Proc.Capabilities)
	// The architecture's name is in it.
	return strings.ReplaceAll(b.String(), driverroot.LoaderDirs()[0], "/usr/lib/TRIPLE")
}

func TestPlan(t *testing.T) {
	gpus, err := GPUs(driverproc.Root(proc(t)))
	assert.NilError(t, err)
	for file, tc := range map[string]struct {
		request Request
		debian  bool
	}{
		"compute-utility-debian": {Request{Devices: []string{"1"}, Capabilities: driverroot.Compute | driverroot.Utility}, true},
		"compute-utility":        {Request{Devices: []string{"1"}, Capabilities: driverroot.Compute | driverroot.Utility}, false},
		"graphics-debian":        {Request{Devices: []string{"1"}, Capabilities: driverroot.Graphics}, true},
		"every-capability":       {Request{Devices: []string{"1"}, Capabilities: driverroot.EveryCapability}, true},
		"no-capability":          {Request{Devices: []string{"1"}}, true},
		"no-gpu":                 {Request{Capabilities: driverroot.Utility}, true},
		"mig":                    {Request{Devices: []string{mig0}, Capabilities: driverroot.Utility}, true},
		"mig-management-imex":    {Request{Devices: []string{"1"}, MIGConfig: true, MIGMonitor: true, IMEX: []int{3}}, true},
	} {
		t.Run(file, func(t *testing.T) {
			p, err := newPlan(content(), gpus, prepared(), tc.request, tc.debian)
			assert.NilError(t, err)
			golden.Assert(t, p.text(), file+".golden")
		})
	}
}

func TestPlanNamesTheMissingNode(t *testing.T) {
	gpus, err := GPUs(driverproc.Root(proc(t)))
	assert.NilError(t, err)
	for name, tc := range map[string]struct {
		request Request
		err     string
	}{
		"of a GPU":           {Request{Devices: []string{"2"}}, "device node /dev/nvidia1 is missing (make it: nvidia-modprobe -c 1)"},
		"of a MIG device":    {Request{Devices: []string{"0:0"}}, "device node /dev/nvidia-caps/nvidia-cap12 is missing (make it: nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu0/mig/gi1/access)"},
		"of an IMEX channel": {Request{IMEX: []int{4}}, "device node /dev/nvidia-caps-imex-channels/channel4 is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newPlan(content(), gpus, prepared(), tc.request, true)
			assert.ErrorContains(t, err, tc.err)
		})
	}
}
