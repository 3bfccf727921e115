package dra_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/agents/device-plugin/internal/dra"
)

const node = "node1"

func devices() []dra.Device {
	return []dra.Device{{Name: "gpu-0", UUID: "GPU-a"}, {Name: "gpu-1", UUID: "GPU-b"}}
}

// claim returns an allocated claim for devices of this node.
func claim(uid string, names ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, name := range names {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: dra.DriverName, Pool: node, Device: name})
	}
	return c
}

func TestPrepare(t *testing.T) {
	admin := true
	taken := dra.Checkpoint{"other": {Name: "ns/other", Devices: []string{"gpu-0"}}}
	for name, tc := range map[string]struct {
		checkpoint dra.Checkpoint
		claim      *resourceapi.ResourceClaim
		change     func(*resourceapi.ResourceClaim)
		want       []string // CDI devices
		err        string
		// after is what the checkpoint has for the claim.
		after []string
	}{
		"a claim gets its devices": {
			claim: claim("c", "gpu-1", "gpu-0"), after: []string{"gpu-1", "gpu-0"},
			want: []string{"k8s.gpu.nvidia.com/gpu=GPU-b", "k8s.gpu.nvidia.com/gpu=GPU-a"},
		},
		"a claim that was prepared gets the same again": {
			checkpoint: dra.Checkpoint{"c": {Name: "ns/c", Devices: []string{"gpu-0"}}},
			claim:      claim("c", "gpu-0"), after: []string{"gpu-0"}, want: []string{"k8s.gpu.nvidia.com/gpu=GPU-a"},
		},
		"a device of another claim is rejected": {
			checkpoint: taken, claim: claim("c", "gpu-0"), err: "device gpu-0 is in use by claim ns/other (other)",
		},
		"an administrator may access a device of another claim": {
			checkpoint: taken, claim: claim("c", "gpu-0"),
			change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].AdminAccess = &admin },
			want:   []string{"k8s.gpu.nvidia.com/gpu=GPU-a"},
		},
		"devices of another driver are left to it": {
			claim:  claim("c", "gpu-0", "nic-0"),
			change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[1].Driver = "nic.example.com" },
			want:   []string{"k8s.gpu.nvidia.com/gpu=GPU-a"}, after: []string{"gpu-0"},
		},
		"a device that is gone is named, with what to do": {
			claim: claim("c", "gpu-7"), err: "device gpu-7 is not on this node any more: delete the pod",
		},
		"another node's pool is rejected": {
			claim:  claim("c", "gpu-0"),
			change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "node2" },
			err:    "device gpu-0 is in pool node2, and the pool of this node is node1",
		},
		"a config for us is rejected, not ignored": {
			claim: claim("c", "gpu-0"),
			change: func(c *resourceapi.ResourceClaim) {
				c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{
					Requests:            []string{"gpu"},
					DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: dra.DriverName}},
				}}
			},
			err: "the claim has a config for gpu.nvidia.com, which accepts none (requests gpu)",
		},
		"a claim without allocation is rejected": {
			claim: claim("c"), change: func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, err: "not allocated",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(tc.claim)
			}
			granted, next, err := tc.checkpoint.Prepare(tc.claim, node, devices())
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			var got []string
			for _, g := range granted {
				got = append(got, g.Device.CDI())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("granted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.after, next["c"].Devices); diff != "" {
				t.Errorf("checkpoint (-want +got):\n%s", diff)
			}
			if len(next.Unprepare("c")) != len(next)-1 {
				t.Error("the claim cannot be unprepared")
			}
		})
	}
}

func TestCheckpointFile(t *testing.T) {
	l := dra.Checkpoint{"b": {Name: "ns/b", Devices: []string{"gpu-1"}}, "a": {Name: "ns/a", Devices: []string{"gpu-0"}}}
	data, err := l.Encode()
	assert.NilError(t, err)
	back, err := dra.DecodeCheckpoint(data)
	assert.NilError(t, err)
	if diff := cmp.Diff(l, back); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "{", `{"version":"v2"}`} {
		if l, err := dra.DecodeCheckpoint([]byte(bad)); err == nil {
			t.Errorf("DecodeCheckpoint(%q) = %v, want an error", bad, l)
		}
	}
}
