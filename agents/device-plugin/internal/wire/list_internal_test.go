package wire

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// devices returns n healthy devices with that many replicas each. Each fourth is near
// no NUMA node.
func devices(n, replicas int) []resource.Device {
	out := make([]resource.Device, 0, n)
	for i := range n {
		out = append(out, resource.Device{
			UUID: gpu.UUID(fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i)), GPU: i, Replicas: replicas,
			NUMANode: i%4 - 1, Health: health.Status{Healthy: true},
		})
	}
	return out
}

// sick returns the devices, of which those at the places are unhealthy.
func sick(ds []resource.Device, places ...int) []resource.Device {
	ds = slices.Clone(ds)
	for _, i := range places {
		ds[i].Health = health.Status{Reason: "xid 79"}
	}
	return ds
}

// generated is the list as the API's own types have it.
func generated(ds []resource.Device) *pluginapi.ListAndWatchResponse {
	resp := &pluginapi.ListAndWatchResponse{}
	for _, d := range ds {
		for n := range max(d.Replicas, 1) {
			entry := &pluginapi.Device{ID: d.ID(n), Health: pluginapi.Unhealthy}
			if d.Health.Healthy {
				entry.Health = pluginapi.Healthy
			}
			if d.NUMANode >= 0 {
				entry.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(d.NUMANode)}}}
			}
			resp.Devices = append(resp.Devices, entry)
		}
	}
	return resp
}

// checkSent compares what is sent with the generated form.
func checkSent(t *testing.T, l List, want []resource.Device) {
	t.Helper()
	data, err := NewCodec().Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	sent := data.Materialize()
	got := &pluginapi.ListAndWatchResponse{}
	if err := proto.Unmarshal(sent, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(generated(want), got, protocmp.Transform()); diff != "" {
		t.Fatalf("list (-want +got):\n%s", diff)
	}
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(generated(want))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(plain, sent) {
		t.Error("the list is not sent in the bytes of the generated code")
	}
}

func TestListEncodesTheDevices(t *testing.T) {
	mixed := append(devices(5, 1), devices(8, 12)[5:]...)
	for name, tc := range map[string]struct {
		before, after []resource.Device
		changed       bool
	}{
		"nothing":                       {},
		"the first devices":             {after: devices(3, 1), changed: true},
		"whole and shared devices":      {after: mixed, changed: true},
		"a device without replicas":     {after: devices(1, 0), changed: true},
		"the same again":                {before: mixed, after: slices.Clone(mixed)},
		"one falls sick":                {before: mixed, after: sick(mixed, 6), changed: true},
		"the first and the last":        {before: mixed, after: sick(mixed, 0, 7), changed: true},
		"one recovers":                  {before: sick(mixed, 2), after: mixed, changed: true},
		"one is gone":                   {before: mixed, after: slices.Delete(slices.Clone(mixed), 3, 4), changed: true},
		"the last is gone":              {before: mixed, after: mixed[:7], changed: true},
		"one is added":                  {before: mixed[1:], after: mixed, changed: true},
		"one is added behind":           {before: mixed[:7], after: mixed, changed: true},
		"all are gone":                  {before: mixed, changed: true},
		"other replicas":                {before: devices(3, 2), after: devices(3, 11), changed: true},
		"a large NUMA node":             {after: []resource.Device{{UUID: "GPU-a", NUMANode: 300}}, changed: true},
		"another device in its place":   {before: devices(2, 1)[:1], after: devices(2, 1)[1:], changed: true},
		"more than 127 bytes an entry":  {after: []resource.Device{{UUID: gpu.UUID(bytes.Repeat([]byte("x"), 120)), Replicas: 2}}, changed: true},
		"another reason to be not well": {before: sick(mixed, 1), after: reason(sick(mixed, 1), 1, "gpu is lost")},
	} {
		t.Run(name, func(t *testing.T) {
			first, _ := List{}.Next(tc.before)
			checkSent(t, first, tc.before)
			got, changed := first.Next(tc.after)
			if changed != tc.changed {
				t.Errorf("changed is %v, want %v", changed, tc.changed)
			}
			checkSent(t, got, tc.after)
			checkSent(t, first, tc.before)
		})
	}
}

func reason(ds []resource.Device, i int, why string) []resource.Device {
	ds[i].Health.Reason = why
	return ds
}

// Package resource computes the size of a List without the API's types.
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
			every := make([]int, len(devices))
			for i := range every {
				every[i] = i
			}
			longest, _ := List{}.Next(sick(devices, every...))
			if n := longest.Len(); n > resource.MaxListBytes || n < resource.MaxListBytes*99/100 || devices[0].Replicas == replicas {
				t.Errorf("the list of %d replicas each has %d bytes, want at most %d, and nearly as many", devices[0].Replicas, n, resource.MaxListBytes)
			}
		})
	}
}

// BenchmarkList makes the list of 16 GPUs of 7 MIG devices, each advertised 100
// times: anew, and after one GPU has fallen sick.
func BenchmarkList(b *testing.B) {
	ds := devices(112, 100)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			List{}.Next(ds)
		}
	})
	b.Run("health-of-one-gpu", func(b *testing.B) {
		whole, _ := List{}.Next(ds)
		some := sick(ds, 14, 15, 16, 17, 18, 19, 20)
		for b.Loop() {
			whole.Next(some)
		}
	})
}
