package resource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

const (
	res = "nvidia.com/gpu"
	id  = "GPU-00000000-0000-4000-8000-00000000000"
)

func refs(r ...config.Ref) config.Selection { return config.Selection{Refs: r} }

func TestShares(t *testing.T) {
	two := gputest.Divided(gputest.A100, 2, nil, gputest.Times(2, "3g.20gb"))
	two.GPUs[0].MIG = &gpu.MIG{}
	migs := gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"), gputest.Times(2, "3g.20gb"))
	mig := migs.GPUs[0].MIG.Devices[1]
	for name, tc := range map[string]struct {
		node   *gpu.Node
		shares []config.Share
		want   []string
	}{
		"all devices": {
			node:   gputest.Divided(gputest.L4, 2),
			shares: []config.Share{{Name: res, Rename: res, Replicas: 4}},
			want:   []string{"nvidia.com/gpu time-slicing one-at-a-time: 0x4 1x4"},
		},
		"replicas 1 is a new name alone": {
			node:   gputest.Divided(gputest.L4, 2),
			shares: []config.Share{{Name: res, Rename: "nvidia.com/whole", Replicas: 1}},
			want:   []string{"nvidia.com/whole: 0 1"},
		},
		"the first ones": {
			node:   gputest.Divided(gputest.L4, 3),
			shares: []config.Share{{Name: res, Rename: "nvidia.com/gpu.shared", Devices: config.Selection{Count: 2}, Replicas: 4}},
			want:   []string{"nvidia.com/gpu: 2", "nvidia.com/gpu.shared time-slicing one-at-a-time: 0x4 1x4"},
		},
		"a count takes from what entries before have left": {
			node: gputest.Divided(gputest.L4, 4),
			shares: []config.Share{
				{Name: res, Rename: "nvidia.com/few", Devices: config.Selection{Count: 1}, Replicas: 2},
				{Name: res, Rename: "nvidia.com/many", Devices: config.Selection{Count: 2}, Replicas: 9},
			},
			want: []string{
				"nvidia.com/few time-slicing one-at-a-time: 0x2",
				"nvidia.com/gpu: 3",
				"nvidia.com/many time-slicing one-at-a-time: 1x9 2x9",
			},
		},
		"more than there are": {
			node:   gputest.Divided(gputest.L4, 2),
			shares: []config.Share{{Name: res, Rename: res, Devices: config.Selection{Count: 3}, Replicas: 2}},
			want: []string{
				"nvidia.com/gpu time-slicing one-at-a-time: 0x2 1x2",
				"note: sharing of nvidia.com/gpu: 3 devices are configured, but the node has 2",
			},
		},
		"replicas differ from GPU to GPU": {
			node: gputest.Divided(gputest.L4, 3),
			shares: []config.Share{
				{Name: res, Rename: res, Devices: refs("2"), Replicas: 8},
				{Name: res, Rename: res, Devices: refs(id + "0"), Replicas: 2},
			},
			want: []string{"nvidia.com/gpu time-slicing one-at-a-time: 0x2 1 2x8"},
		},
		"a device belongs to the first entry that names it": {
			node: gputest.Divided(gputest.L4, 2),
			shares: []config.Share{
				{Name: res, Rename: res, Devices: refs("0"), Replicas: 1},
				{Name: res, Rename: res, Devices: refs("0", "1"), Replicas: 2},
			},
			want: []string{
				"nvidia.com/gpu time-slicing one-at-a-time: 0 1x2",
				`note: sharing of nvidia.com/gpu: an earlier entry takes device "0"`,
			},
		},
		"an entry behind one for all": {
			node: gputest.Divided(gputest.L4, 1),
			shares: []config.Share{
				{Name: res, Rename: res, Replicas: 2},
				{Name: res, Rename: "nvidia.com/late", Devices: refs("0"), Replicas: 3},
			},
			want: []string{
				"nvidia.com/gpu time-slicing one-at-a-time: 0x2",
				"note: sharing of nvidia.com/gpu: earlier entries take all devices",
			},
		},
		"what is not on the node is reported": {
			node: gputest.Divided(gputest.L4, 1),
			shares: []config.Share{
				{Name: "nvidia.com/mig-1g.5gb", Rename: "nvidia.com/mig-1g.5gb", Replicas: 2},
				{Name: res, Rename: res, Devices: refs("7", "0", "0:1", "GPU-none", ""), Replicas: 2},
			},
			want: []string{
				"nvidia.com/gpu time-slicing one-at-a-time: 0x2",
				"note: sharing of nvidia.com/mig-1g.5gb: this node has no such devices",
				`note: sharing of nvidia.com/gpu: the node has no such device "7"`,
				`note: sharing of nvidia.com/gpu: the node has no such device "0:1"`,
				`note: sharing of nvidia.com/gpu: the node has no such device "GPU-none"`,
				`note: sharing of nvidia.com/gpu: the node has no such device ""`,
			},
		},
		"MIG devices by each of their names": {
			node: migs,
			shares: []config.Share{
				{Name: "nvidia.com/mig-3g.20gb", Rename: "nvidia.com/a", Devices: refs("0:0"), Replicas: 2},
				{Name: "nvidia.com/mig-3g.20gb", Rename: "nvidia.com/b", Devices: refs(config.Ref(mig.UUID)), Replicas: 3},
				{Name: "nvidia.com/mig-3g.20gb", Rename: "nvidia.com/c", Devices: refs("MIG-" + id + "1/2/0"), Replicas: 4},
			},
			want: []string{
				"nvidia.com/a time-slicing one-at-a-time: 0:0x2",
				"nvidia.com/b time-slicing one-at-a-time: 0:1x3",
				"nvidia.com/c time-slicing one-at-a-time: 1:1x4",
				"nvidia.com/mig-3g.20gb: 1:0",
			},
		},
		"a GPU stands for its MIG devices": {
			node:   migs,
			shares: []config.Share{{Name: "nvidia.com/mig-3g.20gb", Rename: "nvidia.com/small", Devices: refs("1"), Replicas: 2}},
			want:   []string{"nvidia.com/mig-3g.20gb: 0:0 0:1", "nvidia.com/small time-slicing one-at-a-time: 1:0x2 1:1x2"},
		},
		"several sources make one resource in the order of the node": {
			node: two,
			shares: []config.Share{
				{Name: "nvidia.com/mig-3g.20gb", Rename: res, Replicas: 1},
				{Name: res, Rename: res, Replicas: 2},
			},
			want: []string{"nvidia.com/gpu time-slicing one-at-a-time: 0x2 1:0 1:1"},
		},
		"a source without an entry keeps its name and gets company": {
			node:   two,
			shares: []config.Share{{Name: "nvidia.com/mig-3g.20gb", Rename: res, Replicas: 1}},
			want:   []string{"nvidia.com/gpu: 0 1:0 1:1"},
		},
		"one replica for each 1000 MiB": {
			node: gputest.Partition(gputest.Mixed(gputest.L4, gputest.A100), 1, "3g.20gb", "1g.5gb"),
			shares: []config.Share{
				{Name: res, Rename: "nvidia.com/gpu-mem-gb", Replicas: config.AutoReplicas},
				{Name: "nvidia.com/mig-3g.20gb", Rename: "nvidia.com/gpu-mem-gb", Replicas: config.AutoReplicas},
				{Name: "nvidia.com/mig-1g.5gb", Rename: "nvidia.com/gpu-mem-gb", Replicas: config.AutoReplicas},
			},
			want: []string{"nvidia.com/gpu-mem-gb time-slicing one-at-a-time: 0x23 1:0x19 1:1x4"},
		},
		"a replica for each 1000 MiB of a part of a GPU instance": {
			node:   gputest.Divided(gputest.A100, 1, gputest.Times(3, "1c.3g.20gb")),
			shares: []config.Share{{Name: "nvidia.com/mig-1c.3g.20gb", Rename: res, Replicas: config.AutoReplicas}},
			want:   []string{"nvidia.com/gpu time-slicing one-at-a-time: 0:0x6 0:1x6 0:2x6"},
		},
		"memory that is small or not known": {
			node: &gpu.Node{GPUs: []gpu.GPU{{Index: 0, UUID: "GPU-0", MemoryBytes: 999 << 20}, {Index: 1, UUID: "GPU-1"}}},
			shares: []config.Share{
				{Name: res, Rename: res, Replicas: config.AutoReplicas},
			},
			want: []string{
				"nvidia.com/gpu: 0 1",
				"note: sharing of nvidia.com/gpu: the memory of device 1 is unknown, so the device is advertised once",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Config{
				MIGStrategy: config.MIGStrategyMixed,
				Sharing:     config.Sharing{Strategy: config.SharingTimeSlicing, FailRequestsGreaterThanOne: true, Shares: tc.shares},
			}
			if diff := cmp.Diff(tc.want, short(resource.Derive(tc.node, health.View{}, c))); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

// Labels and allocatable agree, because both follow from what is derived here.
func TestReplicasThatDoNotFitInAListAreLeftOut(t *testing.T) {
	for name, tc := range map[string]struct {
		gpus   int
		shares []config.Share
		want   []int
		note   string
	}{
		"many of each":    {gpus: 16, shares: []config.Share{{Name: res, Replicas: 100}}, want: []int{100, 100}},
		"too many of one": {gpus: 1, shares: []config.Share{{Name: res, Replicas: 100_000}}, want: []int{63_550}, note: "nvidia.com/gpu: only 63550 of 100000 replicas fit"},
		"too many of one, few of others": {
			gpus: 3, shares: []config.Share{{Name: res, Devices: refs("0"), Replicas: 100_000}, {Name: res, Replicas: 50}},
			want: []int{63_454, 50, 50}, note: "at most 63454 for each device: configure fewer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := resource.Derive(gputest.Divided(gputest.L4, tc.gpus), health.View{}, config.Config{
				Sharing: config.Sharing{Strategy: config.SharingTimeSlicing, Shares: tc.shares},
			})
			for i, want := range tc.want {
				if got := set.Resources[0].Devices[i].Replicas; got != want {
					t.Errorf("device %d is advertised %d times, want %d", i, got, want)
				}
			}
			notes := strings.Join(set.Notes, "; ")
			if (tc.note == "") != (notes == "") || !strings.Contains(notes, tc.note) {
				t.Errorf("notes are %q, want %q", notes, tc.note)
			}
		})
	}
}

func TestMPS(t *testing.T) {
	one := func(major, minor int) *gpu.Node {
		return &gpu.Node{GPUs: []gpu.GPU{{UUID: "GPU-0", ComputeCapability: gpu.Version{Major: major, Minor: minor}}}}
	}
	const migNote = "MPS does not share MIG devices (%d), each is advertised once: share them by timeSlicing"
	for name, tc := range map[string]struct {
		node     *gpu.Node
		strategy config.MIGStrategy
		source   string
		replicas int
		want     []string
	}{
		"a GPU is shared":              {node: one(8, 0), replicas: 4, want: []string{"nvidia.com/x mps: 0x4"}},
		"one replica has one client":   {node: one(8, 0), replicas: 1, want: []string{"nvidia.com/x mps: 0"}},
		"Volta serves 48 clients":      {node: one(7, 0), replicas: 48, want: []string{"nvidia.com/x mps: 0x48"}},
		"before Volta there are 16":    {node: one(6, 1), replicas: 16, want: []string{"nvidia.com/x mps: 0x16"}},
		"the oldest that is served":    {node: one(3, 5), replicas: 2, want: []string{"nvidia.com/x mps: 0x2"}},
		"old and not to be shared":     {node: one(3, 0), replicas: 1, want: []string{"nvidia.com/x: 0"}},
		"more clients than Volta has":  {node: one(7, 0), replicas: 49, want: []string{"config 0: MPS serves up to 48 clients of a GPU of compute capability 7.0, but 49 replicas are configured: lower the replicas"}},
		"more clients than Pascal has": {node: one(6, 0), replicas: 17, want: []string{"config 0: MPS serves up to 16 clients of a GPU of compute capability 6.0, but 17 replicas are configured: lower the replicas"}},
		"too old":                      {node: one(3, 0), replicas: 2, want: []string{"config 0: MPS needs a GPU of compute capability 3.5 or later, but this GPU has 3.0: share it by timeSlicing, or take it out of sharing.mps"}},
		"MIG devices": {
			node: gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")), source: "nvidia.com/mig-3g.20gb", replicas: 2,
			want: []string{"nvidia.com/mig-3g.20gb: 0:0 0:1", "note: sharing of nvidia.com/mig-3g.20gb: " + fmt.Sprintf(migNote, 2)},
		},
		"MIG devices with one replica": {
			node: gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")), source: "nvidia.com/mig-3g.20gb", replicas: 1,
			want: []string{"nvidia.com/x: 0:0 0:1"},
		},
		"a whole GPU whose MIG mode is on": {
			node: gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")), strategy: config.MIGStrategyNone, replicas: 2,
			want: []string{"config 0: MPS does not share a GPU whose MIG mode is on: share it by timeSlicing, take it out of sharing.mps, or turn the mode off"},
		},
		"MIG devices of a GPU that fails": {
			node: func() *gpu.Node {
				n := gputest.Divided(gputest.A100, 1, gputest.Times(1, "3g.20gb"))
				n.GPUs[0].Fault = &gpu.Fault{Op: "nvml", Reason: "lost"}
				return n
			}(),
			source: "nvidia.com/mig-3g.20gb", replicas: 2,
			want: []string{"nvidia.com/mig-3g.20gb: 0:0(nvml: lost)", "note: sharing of nvidia.com/mig-3g.20gb: " + fmt.Sprintf(migNote, 1)},
		},
		"a GPU that fails stays what it was": {
			node:     &gpu.Node{GPUs: []gpu.GPU{{UUID: "GPU-0", Fault: &gpu.Fault{Op: "nvml", Reason: "lost"}}}},
			replicas: 4, want: []string{"nvidia.com/x mps: 0x4(nvml: lost)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			source, strategy := tc.source, tc.strategy
			if source == "" {
				source = res
			}
			if strategy == "" {
				strategy = config.MIGStrategyMixed
			}
			c := config.Config{
				MIGStrategy: strategy,
				Sharing: config.Sharing{
					Strategy: config.SharingMPS,
					Shares:   []config.Share{{Name: source, Rename: "nvidia.com/x", Replicas: tc.replicas}},
				},
			}
			if diff := cmp.Diff(tc.want, short(resource.Derive(tc.node, health.View{}, c))); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}
