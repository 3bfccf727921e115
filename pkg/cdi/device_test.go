package cdi_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// withCaps adds the capability nodes of all MIG devices of gpus.
func withCaps(c *driverroot.Content, root string, gpus []gpu.GPU) *driverroot.Content {
	c.Caps = map[int]driverroot.DeviceNode{}
	for _, minor := range []int{1, 2} {
		c.Caps[minor] = capNode(root, minor)
	}
	for _, g := range gpus {
		for _, m := range devicesOf(g) {
			for _, minor := range []int{m.GPUInstanceCap, m.ComputeInstanceCap} {
				c.Caps[minor] = capNode(root, minor)
			}
		}
	}
	return c
}

func devicesOf(g gpu.GPU) []gpu.MIGDevice {
	if g.MIG == nil {
		return nil
	}
	return g.MIG.Devices
}

func capNode(root string, minor int) driverroot.DeviceNode {
	name := fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor)
	return driverroot.DeviceNode{HostPath: path.Join(root, "dev", name), Path: "/dev/" + name, Mode: 0o444}
}

// partitioned is a node of three GPUs: a whole one, one with two compute
// instances in one GPU instance and a third device, and one in MIG mode that
// has no instance.
func partitioned() *gpu.Node {
	n := gputest.Node(gputest.A100, 3)
	gputest.Partition(n, 1, "1c.3g.20gb", "2c.3g.20gb", "1g.5gb")
	return gputest.Partition(n, 2)
}

func TestSpecOfMIGDevices(t *testing.T) {
	for name, c := range map[string]struct {
		names   []cdi.Namer
		root    string
		change  func(*gpu.Node, *driverroot.Content)
		golden  string
		version string
	}{
		"by UUID":  {names: []cdi.Namer{cdi.ByUUID}, root: "/", golden: "mig-uuid", version: "0.3.0"},
		"by index": {names: []cdi.Namer{cdi.ByIndex}, root: "/run/nvidia/driver", golden: "mig-index", version: "0.5.0"},
		"by both":  {names: []cdi.Namer{cdi.ByUUID, cdi.ByIndex}, root: "/", golden: "mig-both", version: "0.5.0"},
		"render nodes go to graphics profiles and whole GPUs alone": {
			names: []cdi.Namer{cdi.ByIndex}, root: "/", golden: "mig-graphics", version: "0.5.0",
			change: func(n *gpu.Node, c *driverroot.Content) {
				n.GPUs[1].MIG.Devices[0].Profile.Attribute = "+gfx"
				dri := driverroot.DeviceNode{HostPath: "/dev/dri/renderD129", Path: "/dev/dri/renderD129", Mode: 0o666}
				c.DRM[n.GPUs[1].PCI.BusID] = []driverroot.DeviceNode{dri}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := partitioned()
			content := withCaps(content(c.root, "/usr/lib64", 3), c.root, n.GPUs)
			// What all GPUs share is in the other golden files.
			content.Libraries, content.Firmware, content.Configs = nil, nil, nil
			if c.change != nil {
				c.change(n, content)
			}
			spec := one(t, content, n.GPUs, cdi.Options{Kind: kind}, c.names...)
			if spec.Version != c.version {
				t.Errorf("cdiVersion = %s, want %s", spec.Version, c.version)
			}
			isSpec(t, c.golden+".golden", spec)
			validate(t, spec)
		})
	}
}

// No MIG device grants the right to change or monitor the instances of others.
func TestMIGDevicesGrantNoOtherRights(t *testing.T) {
	for _, minor := range []int{1, 2} {
		n := partitioned()
		c := withCaps(content("/", "/usr/lib64", 3), "/", n.GPUs)
		m := &n.GPUs[1].MIG.Devices[0]
		m.ComputeInstanceCap = minor
		devices, missing := cdi.Devices(n.GPUs, c, cdi.ByUUID)
		if len(missing) != 1 || missing[0].UUID != m.UUID {
			t.Errorf("unresolved are %v, want %s", missing, m.UUID)
		}
		for _, d := range devices {
			if slices.Contains(paths(d), capNode("/", minor).Path) {
				t.Errorf("%s has capability %d", d.Name, minor)
			}
		}
	}
}

func paths(d cdi.Device) []string {
	var out []string
	for _, n := range d.Nodes {
		out = append(out, n.Path)
	}
	return out
}

func TestDevicesDoNotChangeWhenOneBreaks(t *testing.T) {
	fault := &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
	n := partitioned()
	c := withCaps(content("/", "/usr/lib64", 3), "/", n.GPUs)
	whole := resolved(t, n.GPUs, c, cdi.ByUUID, cdi.ByIndex)
	n.GPUs[0].Fault, n.GPUs[1].MIG.Devices[1].Fault = fault, fault
	if d := cmp.Diff(whole, resolved(t, n.GPUs, c, cdi.ByUUID, cdi.ByIndex)); d != "" {
		t.Errorf("devices (-whole +broken):\n%s", d)
	}
	delete(c.GPUs, 0)
	delete(c.Caps, n.GPUs[1].MIG.Devices[1].ComputeInstanceCap)
	got := resolved(t, n.GPUs, c, cdi.ByUUID, cdi.ByIndex)
	if len(got) != len(whole)-4 {
		t.Errorf("%d devices of %d are left, want all but two, each with two names, when the nodes of the broken are gone", len(got), len(whole))
	}
	n.GPUs[1].MIG.Devices[1] = gpu.MIGDevice{Index: 1, GPUInstance: gpu.NoInstance, GPUInstanceCap: -1, ComputeInstanceCap: -1, Fault: fault}
	if d := cmp.Diff(got, resolved(t, n.GPUs, c, cdi.ByUUID, cdi.ByIndex)); d != "" {
		t.Errorf("devices when of the broken one nothing is known (-want +got):\n%s", d)
	}
}

func TestDevicesReportsEveryMissingNode(t *testing.T) {
	n := partitioned()
	whole, first, last := n.GPUs[0].UUID, n.GPUs[1].MIG.Devices[0], n.GPUs[1].MIG.Devices[2]
	for name, c := range map[string]struct {
		change func(*driverroot.Content)
		// want are the devices that cannot be used, with a part of the reason.
		want map[gpu.UUID]string
		left int
	}{
		"of a GPU": {
			func(c *driverroot.Content) { delete(c.GPUs, 0) },
			map[gpu.UUID]string{whole: "device node nvidia0 is missing (make it: nvidia-modprobe -c 0)"},
			6,
		},
		"of a GPU with MIG devices": {
			func(c *driverroot.Content) { delete(c.GPUs, 1) },
			map[gpu.UUID]string{
				n.GPUs[1].UUID: "nvidia1 is missing", first.UUID: "nvidia1 is missing",
				n.GPUs[1].MIG.Devices[1].UUID: "nvidia1 is missing", last.UUID: "nvidia1 is missing",
			},
			3,
		},
		"of a compute instance": {
			func(c *driverroot.Content) { delete(c.Caps, first.ComputeInstanceCap) },
			map[gpu.UUID]string{first.UUID: fmt.Sprintf(
				"nvidia-caps/nvidia-cap%d is missing (make it: nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu1/mig/gi%d/ci%d/access)",
				first.ComputeInstanceCap, first.GPUInstance, first.ComputeInstance)},
			6,
		},
		"of a GPU instance": {
			func(c *driverroot.Content) { delete(c.Caps, last.GPUInstanceCap) },
			map[gpu.UUID]string{last.UUID: fmt.Sprintf("capabilities/gpu1/mig/gi%d/access", last.GPUInstance)},
			6,
		},
		"of everything": {
			func(c *driverroot.Content) { clear(c.GPUs); clear(c.Caps) },
			map[gpu.UUID]string{
				whole: "nvidia0", n.GPUs[1].UUID: "nvidia1", n.GPUs[2].UUID: "nvidia2", first.UUID: "nvidia1",
				n.GPUs[1].MIG.Devices[1].UUID: "nvidia1", last.UUID: "nvidia1",
			},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := withCaps(content("/", "/usr/lib64", 3), "/", n.GPUs)
			c.change(content)
			devices, missing := cdi.Devices(n.GPUs, content, cdi.ByUUID)
			if len(devices) != c.left {
				t.Errorf("%d devices are left, want %d", len(devices), c.left)
			}
			if len(missing) != len(c.want) {
				t.Errorf("unresolved are %v, want %d", missing, len(c.want))
			}
			for _, u := range missing {
				if want, ok := c.want[u.UUID]; !ok || !strings.Contains(u.Error(), want) || !strings.Contains(u.Error(), string(u.UUID)) {
					t.Errorf("%q, want %q in it", u.Error(), want)
				}
			}
		})
	}
}

// Agents that learn of a new mode late have the right specs.
func TestAMIGModeAloneChangesNoDevice(t *testing.T) {
	on, off := gputest.Node(gputest.A100, 2), gputest.Node(gputest.A100, 2)
	gputest.Partition(on, 1)
	c := content("/", "/usr/lib64", 2)
	names := []cdi.Namer{cdi.ByIndex, cdi.ByUUID, cdi.ByPCI}
	if d := cmp.Diff(resolved(t, off.GPUs, c, names...), resolved(t, on.GPUs, c, names...)); d != "" {
		t.Errorf("devices (-mode off +mode on):\n%s", d)
	}
}

func TestDevicesThatCDICannotName(t *testing.T) {
	n := gputest.Node(gputest.A100, 2)
	n.GPUs[1].UUID = "MIG-GPU-1/2/0"
	devices, missing := cdi.Devices(n.GPUs, content("/", "/usr/lib64", 2), cdi.ByUUID)
	if len(devices) != 2 || len(missing) != 1 || missing[0].UUID != n.GPUs[1].UUID {
		t.Errorf("devices are %v, unresolved %v, want the second GPU unresolved", devices, missing)
	}
}

func BenchmarkSpec(b *testing.B) {
	for name, parts := range map[string]int{"8 GPUs": 0, "8 GPUs with 7 MIG devices": 7} {
		b.Run(name, func(b *testing.B) {
			n := gputest.Node(gputest.A100, 8)
			for i := range n.GPUs {
				gputest.Partition(n, i, slices.Repeat([]string{"1g.5gb"}, parts)...)
			}
			c := withCaps(content("/run/nvidia/driver", "/usr/lib64", 8), "/run/nvidia/driver", n.GPUs)
			for i := range 45 {
				name := fmt.Sprintf("libnvidia-part%d.so.", i)
				c.Libraries = append(c.Libraries, driverroot.Library{
					File:  driverroot.File{HostPath: "/usr/lib64/" + name + version, Path: "/usr/lib64/" + name + version},
					Names: []string{name + "1"},
				})
			}
			for b.Loop() {
				if _, err := cdi.Encode(one(b, c, n.GPUs, cdi.Options{Kind: kind}, cdi.ByUUID)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
