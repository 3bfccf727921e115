package cdi_test

import (
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// A device for pods that manage a node, management.nvidia.com/gpu=all, is a
// request like others: it has every node of the driver, also those of the
// capabilities to change and monitor MIG instances, and no hook that hides GPUs.
func TestSpecOfManagementDevices(t *testing.T) {
	n := partitioned()
	c := withCaps(content("/", "/usr/lib64", 3), "/", n.GPUs)
	c.Extras.IMEX = map[int]driverroot.DeviceNode{0: {HostPath: "/dev/nvidia-caps-imex-channels/channel0", Path: "/dev/nvidia-caps-imex-channels/channel0", Mode: 0o666}}
	request := cdi.Request{
		Options: cdi.Options{
			Kind: "management.nvidia.com/gpu", HookPath: "/usr/bin/nvidia-cdi-hook",
			Features: cdi.Features{DisabledHooks: []string{"disable-device-node-modification", "update-application-profile"}},
		},
		Devices: func(c *driverroot.Content, _ []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) {
			nodes := slices.Clone(c.Control)
			for _, more := range []map[int]driverroot.DeviceNode{c.GPUs, c.Caps, c.Extras.IMEX} {
				nodes = slices.AppendSeq(nodes, maps.Values(more))
			}
			return []cdi.Device{{Name: cdi.All, Nodes: nodes}}, nil
		},
	}
	got, missing, err := cdi.Specs(c, nil, request)
	if err != nil || len(missing) > 0 || len(got) != 1 || len(got[0].Devices) != 1 {
		t.Fatalf("Specs() = %v, unresolved %v, error %v, want one device", got, missing, err)
	}
	validate(t, got[0])
	var nodes, hooks []string
	for _, d := range got[0].Devices[0].ContainerEdits.DeviceNodes {
		nodes = append(nodes, d.Path)
	}
	for _, h := range got[0].ContainerEdits.Hooks {
		hooks = append(hooks, h.Args[1])
	}
	want := []string{
		"/dev/nvidia-caps-imex-channels/channel0", "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
		"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidiactl",
	}
	for minor := range c.Caps {
		want = append(want, path.Clean(capNode("/", minor).Path))
	}
	slices.Sort(want)
	if d := cmp.Diff(want, nodes); d != "" {
		t.Errorf("device nodes (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"create-symlinks", "enable-cuda-compat", "update-ldcache"}, hooks); d != "" {
		t.Errorf("hooks (-want +got):\n%s", d)
	}
}
