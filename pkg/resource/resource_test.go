package resource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func TestDerive(t *testing.T) {
	healthy := health.Status{Healthy: true}
	half := gpu.Profile{ComputeSlices: 3, GPUSlices: 3, GB: 20}
	caps := []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap0", "/dev/nvidia-caps/nvidia-cap0"}
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
		"a MIG device has the NUMA node of its GPU, and the nodes of both": {
			gpus: []gpu.GPU{{Index: 1, Minor: 2, UUID: "GPU-b", NUMANode: 1, MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{
				{UUID: "MIG-b", Index: 3, Profile: half, GPUInstanceCap: 30, ComputeInstanceCap: 31},
			}}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/mig-3g.20gb", Devices: []resource.Device{{
				UUID: "MIG-b", Index: "1:3", GPU: 1, Replicas: 1, NUMANode: 1, Health: healthy,
				Paths: []string{"/dev/nvidia2", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"},
			}}}}},
		},
		"a MIG device that fails is unhealthy, and those beside it are not": {
			gpus: []gpu.GPU{{UUID: "GPU-a", MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{
				{UUID: "MIG-a", Index: 0, Profile: half, Fault: lost},
				{UUID: "MIG-b", Index: 1, Profile: half, GPUInstance: 2, GPUInstanceCap: 30, ComputeInstanceCap: 31},
			}}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/mig-3g.20gb", Devices: []resource.Device{
				{UUID: "MIG-a", Index: "0:0", Replicas: 1, Health: health.Status{Kind: cause.DeviceFault, Reason: lost.Error()}},
				{
					UUID: "MIG-b", Index: "0:1", Replicas: 1, Health: healthy,
					Paths: []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"},
				},
			}}}},
		},
		"the view reports one instance": {
			gpus: []gpu.GPU{{UUID: "GPU-a", MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{
				{UUID: "MIG-a", Index: 0, Profile: half, GPUInstance: 1},
				{UUID: "MIG-b", Index: 1, Profile: half, GPUInstance: 2},
			}}}},
			view: health.View{Instances: map[health.Instance]health.Status{
				{GPU: "GPU-a", GPUInstance: 2, ComputeInstance: gpu.NoInstance}: {Reason: "xid 94"},
			}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/mig-3g.20gb", Devices: []resource.Device{
				{UUID: "MIG-a", Index: "0:0", Replicas: 1, Health: healthy, Paths: caps},
				{UUID: "MIG-b", Index: "0:1", Replicas: 1, Health: health.Status{Reason: "xid 94"}, Paths: caps},
			}}}},
		},
		"a GPU that fails makes its MIG devices unhealthy": {
			gpus: []gpu.GPU{{UUID: "GPU-a", Fault: lost, MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{{UUID: "MIG-a", Profile: half}}}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/mig-3g.20gb", Devices: []resource.Device{
				{UUID: "MIG-a", Index: "0:0", Replicas: 1, Health: health.Status{Kind: cause.DeviceFault, Reason: lost.Error()}},
			}}}},
		},
		"MIG devices that cannot be named are reported": {
			gpus: []gpu.GPU{{UUID: "GPU-a", MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{
				{Index: 0, Profile: half},
				{Index: 1, UUID: "MIG-b", Fault: lost},
				{Index: 2, UUID: "MIG-c"},
			}}}},
			want: resource.Set{Unlisted: []resource.Unlisted{
				{Index: "0:0", Kind: cause.DeviceFault, Reason: "it has no UUID"},
				{Index: "0:1", UUID: "MIG-b", Kind: cause.DeviceFault, Reason: lost.Error()},
				{Index: "0:2", UUID: "MIG-c", Kind: cause.DeviceFault, Reason: "its MIG profile is not known"},
			}},
		},
		"a GPU whose MIG devices cannot be read for its fault is reported with it": {
			gpus: []gpu.GPU{{UUID: "GPU-a", Fault: lost, MIG: &gpu.MIG{Enabled: true}}},
			want: resource.Set{Unlisted: []resource.Unlisted{
				{Index: "0", UUID: "GPU-a", Kind: cause.DeviceFault, Reason: lost.Error()},
			}},
		},
		"MIG mode that comes with the next reset changes nothing": {
			gpus: []gpu.GPU{{UUID: "GPU-a", MIG: &gpu.MIG{Pending: true}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
				{UUID: "GPU-a", Index: "0", Replicas: 1, Paths: []string{"/dev/nvidia0"}, Health: healthy},
			}}}},
		},
		"a GPU that fails is advertised as unhealthy, without device nodes": {
			gpus: []gpu.GPU{{UUID: "GPU-a", NUMANode: -1, Fault: lost}},
			view: health.View{GPUs: map[gpu.UUID]health.Status{"GPU-a": {Reason: "lost"}}},
			want: resource.Set{Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
				{UUID: "GPU-a", Index: "0", Replicas: 1, NUMANode: -1, Health: health.Status{Reason: "lost"}},
			}}}},
		},
		"a GPU without UUID is reported, and the others are advertised": {
			gpus: []gpu.GPU{{Index: 0, Fault: lost}, {Index: 1, Minor: 1, UUID: "GPU-b"}},
			want: resource.Set{
				Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
					{UUID: "GPU-b", Index: "1", GPU: 1, Replicas: 1, Paths: []string{"/dev/nvidia1"}, Health: healthy},
				}}},
				Unlisted: []resource.Unlisted{{Index: "0", Kind: cause.DeviceFault, Reason: "nvmlDeviceGetUUID: GPU is lost"}},
			},
		},
		"a node without GPUs advertises nothing": {want: resource.Set{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := resource.Derive(&gpu.Node{GPUs: tc.gpus}, tc.view, config.Config{MIGStrategy: config.MIGStrategyMixed})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFaultCountsWithoutAView(t *testing.T) {
	n := gputest.Node(gputest.L4, 2)
	n.GPUs[1].Fault = &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
	got := short(resource.Derive(n, health.View{}, config.Config{}))
	if diff := cmp.Diff([]string{"nvidia.com/gpu: 0 1(nvmlDeviceGetMemoryInfo: GPU is lost)"}, got); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
}

func TestDevicesHaveTheIDsOfNVIDIAsPlugin(t *testing.T) {
	for want, tc := range map[string]struct {
		device  resource.Device
		replica int
	}{
		"GPU-a":     {device: resource.Device{UUID: "GPU-a", Replicas: 1}},
		"GPU-a::0":  {device: resource.Device{UUID: "GPU-a", Replicas: 2}},
		"MIG-a::17": {device: resource.Device{UUID: "MIG-a", Replicas: 18}, replica: 17},
	} {
		if got := tc.device.ID(tc.replica); got != want {
			t.Errorf("replica %d of %+v is %q, want %q", tc.replica, tc.device, got, want)
		}
	}
}

func TestDeriveSixteen(t *testing.T) {
	set := resource.Derive(gputest.Node(gputest.H100, 16), health.View{}, config.Config{})
	if len(set.Resources) != 1 || len(set.Resources[0].Devices) != 16 {
		t.Fatalf("advertised %+v, want 16 devices of one resource", set)
	}
	if got := set.Resources[0].Devices[15].Index; got != "15" {
		t.Errorf("the last index is %s, want 15", got)
	}
}
