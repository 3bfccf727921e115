package server

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func TestAListHasAnEntryForEachReplica(t *testing.T) {
	healthy := health.Status{Healthy: true}
	got := list([]resource.Device{
		{UUID: "GPU-a", NUMANode: 1, Health: healthy},
		{UUID: "GPU-b", NUMANode: -1, Replicas: 2, Health: health.Status{Reason: "xid 79"}},
		{UUID: "GPU-c", NUMANode: 0, Replicas: 1, Health: healthy},
	})
	near := func(node int64) *pluginapi.TopologyInfo {
		return &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}
	}
	want := &pluginapi.ListAndWatchResponse{Devices: []*pluginapi.Device{
		{ID: "GPU-a", Health: pluginapi.Healthy, Topology: near(1)},
		{ID: "GPU-b::0", Health: pluginapi.Unhealthy},
		{ID: "GPU-b::1", Health: pluginapi.Unhealthy},
		{ID: "GPU-c", Health: pluginapi.Healthy, Topology: near(0)},
	}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// Package resource computes the size of a list without the API's types.
func TestDerivedReplicasFillAList(t *testing.T) {
	for gpus, replicas := range map[int]int{1: 100_000, 2: 40_000, 16: 100_000, 17: 4_000} {
		t.Run(fmt.Sprintf("%d replicas of %d GPUs", replicas, gpus), func(t *testing.T) {
			n := gputest.Node(gputest.A100, gpus)
			for i := range n.GPUs {
				n.GPUs[i].NUMANode = i * 100 // of one and of two bytes
			}
			set := resource.Derive(n, health.View{}, config.Config{Sharing: config.Sharing{
				Strategy: config.SharingTimeSlicing, Shares: []config.Share{{Name: resource.GPU, Replicas: replicas}},
			}})
			devices := set.Resources[0].Devices
			for i := range devices {
				devices[i].Health = health.Status{} // the longer word
			}
			if n := proto.Size(list(devices)); n > resource.MaxListBytes || n < resource.MaxListBytes*99/100 || devices[0].Replicas == replicas {
				t.Errorf("the list of %d replicas each has %d bytes, want at most %d, and nearly as many", devices[0].Replicas, n, resource.MaxListBytes)
			}
		})
	}
}
