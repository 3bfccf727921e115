package resource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/agents/device-plugin/internal/resource"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestDerive(t *testing.T) {
	healthy := health.Status{Healthy: true}
	lost := &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: "GPU is lost"}
	for name, tc := range map[string]struct {
		gpus []gpu.GPU
		view health.View
		want resource.Set
	}{
		"each GPU is one device with its node, NUMA node and index": {
			gpus: []gpu.GPU{
				{Index: 0, Minor: 3, UUID: "GPU-a", NUMANode: 0},
				{Index: 1, Minor: 0, UUID: "GPU-b", NUMANode: 1},
			},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
				{UUID: "GPU-a", Index: "0", Replicas: 1, Paths: []string{"/dev/nvidia3"}, Health: healthy},
				{UUID: "GPU-b", Index: "1", GPU: 1, Replicas: 1, Paths: []string{"/dev/nvidia0"}, NUMANode: 1, Health: healthy},
			}}}},
		},
		"a GPU with MIG mode on is offered whole": {
			gpus: []gpu.GPU{{UUID: "GPU-a", NUMANode: -1, MIG: &gpu.MIG{Enabled: true}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
				{UUID: "GPU-a", Index: "0", Replicas: 1, Paths: []string{"/dev/nvidia0"}, NUMANode: -1, Health: healthy},
			}}}},
		},
		"a GPU that fails is offered as unhealthy, without device nodes": {
			gpus: []gpu.GPU{{UUID: "GPU-a", NUMANode: -1, Fault: lost}},
			view: health.View{GPUs: map[gpu.UUID]health.Status{"GPU-a": {Reason: "lost"}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
				{UUID: "GPU-a", Index: "0", Replicas: 1, NUMANode: -1, Health: health.Status{Reason: "lost"}},
			}}}},
		},
		"a GPU without UUID is told, and the others are offered": {
			gpus: []gpu.GPU{{Index: 0, Fault: lost}, {Index: 1, Minor: 1, UUID: "GPU-b"}},
			want: resource.Set{
				Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
					{UUID: "GPU-b", Index: "1", GPU: 1, Replicas: 1, Paths: []string{"/dev/nvidia1"}, Health: healthy},
				}}},
				Unlisted: []resource.Unlisted{{Index: 0, Reason: "nvmlDeviceGetUUID: GPU is lost"}},
			},
		},
		"a node without GPUs offers nothing": {want: resource.Set{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := resource.Derive(&gpu.Node{GPUs: tc.gpus}, tc.view, config.Config{})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeriveSixteen(t *testing.T) {
	set := resource.Derive(gputest.Node(gputest.H100, 16), health.View{}, config.Config{})
	if len(set.Resources) != 1 || len(set.Resources[0].Devices) != 16 {
		t.Fatalf("offered %+v, want 16 devices of one resource", set)
	}
	if got := set.Resources[0].Devices[15].Index; got != "15" {
		t.Errorf("the last index is %s, want 15", got)
	}
}
