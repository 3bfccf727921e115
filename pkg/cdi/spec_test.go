package cdi_test

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	upstream "tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

const (
	version = "580.95.05"
	kind    = "k8s.device-plugin.nvidia.com/gpu"
)

// content is a driver installation below root, with nodes for n GPUs.
func content(root, libDir string, n int) *driverroot.Content {
	file := func(p string) driverroot.File { return driverroot.File{HostPath: path.Join(root, p), Path: p} }
	node := func(name string) driverroot.DeviceNode {
		return driverroot.DeviceNode{HostPath: path.Join(root, "dev", name), Path: "/dev/" + name, Mode: 0o666}
	}
	lib := func(name string, names ...string) driverroot.Library {
		return driverroot.Library{File: file(path.Join(libDir, name)), Names: names}
	}
	c := &driverroot.Content{
		Version: version,
		Libraries: []driverroot.Library{
			lib("libGLX_nvidia.so."+version, "libGLX_nvidia.so.0", "libGLX_indirect.so.0"),
			lib("libcuda.so."+version, "libcuda.so.1", "libcuda.so"),
			lib("libnvidia-allocator.so."+version, "libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"),
			lib("libnvidia-glcore.so." + version),
			lib("libnvidia-ml.so."+version, "libnvidia-ml.so.1"),
			lib("vdpau/libvdpau_nvidia.so."+version, "libvdpau_nvidia.so.1"),
		},
		Binaries: []driverroot.File{file("/usr/bin/nvidia-smi")},
		Firmware: []driverroot.File{file("/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin")},
		Configs:  []driverroot.File{file("/etc/vulkan/icd.d/nvidia_icd.json")},
		Sockets:  []driverroot.File{file("/run/nvidia-persistenced/socket")},
		Control:  []driverroot.DeviceNode{node("nvidia-modeset"), node("nvidia-uvm"), node("nvidia-uvm-tools"), node("nvidiactl")},
		GPUs:     map[int]driverroot.DeviceNode{},
		DRM:      map[string][]driverroot.DeviceNode{},
	}
	for i := range n {
		c.GPUs[i] = node(fmt.Sprintf("nvidia%d", i))
	}
	return c
}

func TestSpec(t *testing.T) {
	multiarch, lib64 := "/usr/lib/x86_64-linux-gnu", "/usr/lib64"
	for name, c := range map[string]struct {
		content *driverroot.Content
		name    cdi.Namer
		options cdi.Options
		golden  string
		version string
	}{
		"the host's own driver, by UUID": {
			content: content("/", multiarch, 2), name: cdi.ByUUID, golden: "host-uuid", version: "0.3.0",
		},
		"a driver container, by index": {
			content: content("/run/nvidia/driver", lib64, 2), name: cdi.ByIndex, golden: "driver-container-index", version: "0.5.0",
		},
		"libraries where no loader searches": {
			content: content("/", "/opt/nvidia/lib64", 2), name: cdi.ByUUID, golden: "odd-folder", version: "0.3.0",
		},
		"with hooks": {
			content: content("/", multiarch, 2), name: cdi.ByUUID, golden: "hooks", version: "0.3.0",
			options: cdi.Options{HookPath: "/usr/bin/nvidia-cdi-hook"},
		},
		"with one hook": {
			content: content("/", multiarch, 2), name: cdi.ByUUID, golden: "one-hook", version: "0.3.0",
			options: cdi.Options{HookPath: "/usr/bin/nvidia-cdi-hook", OneHook: true, LdconfigPath: "/sbin/ldconfig.real"},
		},
		"nodes for one group": {
			content: restricted(content("/", multiarch, 2)), name: cdi.ByUUID, golden: "group", version: "0.7.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Kind = kind
			spec := one(t, c.content, gputest.Node(gputest.A100, 2).GPUs, c.options, c.name)
			if spec.Version != c.version {
				t.Errorf("cdiVersion = %s, want %s", spec.Version, c.version)
			}
			isSpec(t, c.golden+".golden", spec)
			validate(t, spec)
		})
	}
}

// restricted gives all nodes to a group, and GPU 0 a render node.
func restricted(c *driverroot.Content) *driverroot.Content {
	set := func(n driverroot.DeviceNode) driverroot.DeviceNode {
		n.Mode, n.GID = 0o660, 44
		return n
	}
	for i, n := range c.Control {
		c.Control[i] = set(n)
	}
	for minor, n := range c.GPUs {
		c.GPUs[minor] = set(n)
	}
	dri := driverroot.DeviceNode{HostPath: "/dev/dri/renderD128", Path: "/dev/dri/renderD128", Mode: 0o660, GID: 105}
	c.DRM["0000:07:00.0"] = []driverroot.DeviceNode{dri}
	return c
}

func isSpec(t *testing.T, name string, spec *specs.Spec) {
	t.Helper()
	got, err := cdi.Encode(spec)
	assert.NilError(t, err)
	golden.Assert(t, string(got), name)
}

// validate lets the CDI library, as a container runtime has it, read the spec.
func validate(t *testing.T, spec *specs.Spec) {
	t.Helper()
	dir := t.TempDir()
	if _, err := (cdi.Dir{Path: dir, Kinds: []string{spec.Kind}}).Sync(spec); err != nil {
		t.Fatal(err)
	}
	read, err := upstream.ReadSpec(filepath.Join(dir, strings.Replace(spec.Kind, "/", "-", 1)+".json"), 0)
	assert.NilError(t, err)
	if d := cmp.Diff(spec, read.Spec); d != "" {
		t.Errorf("spec as the library reads it (-want +got):\n%s", d)
	}
	seen := map[string]bool{}
	for _, m := range spec.ContainerEdits.Mounts {
		if seen[m.ContainerPath] {
			t.Errorf("%s is mounted twice", m.ContainerPath)
		}
		seen[m.ContainerPath] = true
		for _, o := range []string{"nosuid", "nodev", "rbind", "rprivate"} {
			if !slices.Contains(m.Options, o) {
				t.Errorf("%s is mounted without %s", m.ContainerPath, o)
			}
		}
		if !slices.Contains(m.Options, "ro") && !strings.HasSuffix(m.ContainerPath, "/socket") {
			t.Errorf("%s may be written", m.ContainerPath)
		}
	}
}

// A container without loader cache finds libcuda.so.1 in a folder in which the
// loader searches by itself, wherever the host has the library.
func TestLibrariesAreFoundWithoutHook(t *testing.T) {
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/opt/nvidia/lib64", "/usr/lib/x86_64-linux-gnu/nvidia/current"} {
		t.Run(dir, func(t *testing.T) {
			c := content("/run/nvidia/driver", dir, 1)
			spec := build(t, c, cdi.Options{Kind: kind})
			hosts := map[string]string{}
			for _, m := range spec.ContainerEdits.Mounts {
				hosts[m.ContainerPath] = m.HostPath
			}
			want := "/run/nvidia/driver" + dir + "/libcuda.so." + version
			for _, loader := range driverroot.LoaderDirs() {
				for _, name := range []string{"libcuda.so", "libcuda.so.1", "libcuda.so." + version} {
					if got := hosts[loader+"/"+name]; got != want {
						t.Errorf("%s/%s is %q, want %q", loader, name, got, want)
					}
				}
			}
		})
	}
}

// resolved returns the devices of a driver that lacks nothing.
func resolved(t testing.TB, gpus []gpu.GPU, c *driverroot.Content, names ...cdi.Namer) []cdi.Device {
	t.Helper()
	devices, missing := cdi.Devices(gpus, c, names...)
	if len(missing) > 0 {
		t.Fatalf("not resolved: %v", missing)
	}
	return devices
}

func build(t testing.TB, c *driverroot.Content, o cdi.Options) *specs.Spec {
	t.Helper()
	return one(t, c, gputest.Node(gputest.H100, len(c.GPUs)).GPUs, o, cdi.ByUUID)
}

// one returns the spec of the GPUs of a driver that lacks nothing.
func one(t testing.TB, c *driverroot.Content, gpus []gpu.GPU, o cdi.Options, names ...cdi.Namer) *specs.Spec {
	t.Helper()
	out, missing, err := cdi.Specs(c, gpus, cdi.Request{
		Options: o,
		Devices: func(c *driverroot.Content, gpus []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) {
			return cdi.Devices(gpus, c, names...)
		},
	})
	if err != nil || len(missing) > 0 || len(out) != 1 {
		t.Fatalf("Specs() = %d specs, unresolved %v, error %v, want one spec", len(out), missing, err)
	}
	return out[0]
}

// given returns a request for devices that do not depend on the driver.
func given(o cdi.Options, devices ...cdi.Device) cdi.Request {
	return cdi.Request{Options: o, Devices: func(*driverroot.Content, []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) { return devices, nil }}
}

func TestSpecsRejects(t *testing.T) {
	c := content("/", "/usr/lib64", 1)
	one := []cdi.Device{{Name: "0", Nodes: []driverroot.DeviceNode{c.GPUs[0]}}}
	for name, bad := range map[string]struct {
		devices []cdi.Device
		options cdi.Options
		want    string
	}{
		"a kind without class":      {one, cdi.Options{Kind: "nvidia.com"}, "nvidia.com"},
		"a device without name":     {[]cdi.Device{{Nodes: one[0].Nodes}}, cdi.Options{Kind: kind}, "name"},
		"a name that is no name":    {[]cdi.Device{{Name: "a/b", Nodes: one[0].Nodes}}, cdi.Options{Kind: kind}, "a/b"},
		"two devices of one name":   {append(one, one...), cdi.Options{Kind: kind}, "twice"},
		"a device without nodes":    {[]cdi.Device{{Name: "0"}}, cdi.Options{Kind: kind}, "no device node"},
		"a hook by a relative path": {one, cdi.Options{Kind: kind, HookPath: "nvidia-ctk"}, "not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := cdi.Specs(c, nil, given(bad.options, bad.devices...))
			if err == nil || got != nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("Specs() = %v, %v, want an error with %q", got, err, bad.want)
			}
		})
	}
}
