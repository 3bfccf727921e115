package gpu_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestChanges(t *testing.T) {
	topology := gpu.NodeEvent(gpu.EventTopologyChanged)
	fault := &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
	const second, third = gpu.UUID("GPU-00000000-0000-4000-8000-000000000001"), gpu.UUID("GPU-00000000-0000-4000-8000-000000000002")
	lose := func(n *gpu.Node, i int) { n.GPUs[i].Fault, n.Links = fault, nil }
	for name, c := range map[string]struct {
		change func(n *gpu.Node)
		want   []gpu.Event
	}{
		"nothing":              {func(*gpu.Node) {}, nil},
		"MIG devices that go":  {func(n *gpu.Node) { n.GPUs[1].MIG.Devices = nil }, []gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, second)}},
		"a MIG device's fault": {func(n *gpu.Node) { n.GPUs[1].MIG.Devices[0].Fault = fault }, []gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, second)}},
		"a mode that waits":    {func(n *gpu.Node) { n.GPUs[2].MIG.Pending = true }, []gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, third)}},
		"MIG devices of two GPUs": {
			func(n *gpu.Node) { gputest.Partition(gputest.Partition(n, 1), 2, "7g.40gb") },
			[]gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, second), gpu.GPUEvent(gpu.EventMIGChanged, third)},
		},
		"MIG devices and another property": {
			func(n *gpu.Node) { gputest.Partition(n, 1).GPUs[1].Recovery = gpu.RecoveryReset },
			[]gpu.Event{topology},
		},
		"MIG devices of one GPU, a property of another": {
			func(n *gpu.Node) { gputest.Partition(n, 1).GPUs[0].Recovery = gpu.RecoveryReset },
			[]gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, second), topology},
		},
		"a GPU that loses its MIG mode": {func(n *gpu.Node) { n.GPUs[1].MIG = nil }, []gpu.Event{topology}},
		"a GPU that is lost":            {func(n *gpu.Node) { lose(n, 2) }, []gpu.Event{gpu.GPUEvent(gpu.EventLost, third), topology}},
		"a GPU that is gone":            {func(n *gpu.Node) { n.GPUs, n.Links = n.GPUs[:2], n.Links[:1] }, []gpu.Event{topology}},
		"a GPU that joins its fabric": {
			func(n *gpu.Node) {
				n.GPUs[1].Fabric = &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess}
			},
			[]gpu.Event{topology},
		},
		"another clique, and MIG devices of the GPU": {
			func(n *gpu.Node) { gputest.Partition(n, 0).GPUs[0].Fabric.CliqueID++ },
			[]gpu.Event{topology},
		},
		"another driver": {func(n *gpu.Node) { n.Driver.Version = "1" }, []gpu.Event{topology}},
	} {
		t.Run(name, func(t *testing.T) {
			make3 := func() *gpu.Node {
				n := gputest.Partition(gputest.Node(gputest.A100, 3), 1, "1g.5gb", "2g.10gb")
				n.GPUs[0].Fabric = &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess}
				n.GPUs[1].Fabric = &gpu.Fabric{State: gpu.FabricInProgress}
				return n
			}
			to := make3()
			c.change(to)
			if d := cmp.Diff(c.want, gpu.Changes(make3(), to)); d != "" {
				t.Errorf("Changes() (-want +got):\n%s", d)
			}
		})
	}
	if d := cmp.Diff([]gpu.Event{topology}, gpu.Changes(nil, gputest.Node(gputest.A100, 1))); d != "" {
		t.Errorf("Changes() of a node that was not known (-want +got):\n%s", d)
	}
}
