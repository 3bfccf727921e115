package allocate_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

func TestPreferredOnANodeOfWhichNothingIsKnown(t *testing.T) {
	all := []string{gpu3, gpu1, gpu0}
	for name, tc := range map[string]struct {
		available, must []string
		size            int
		want            []string
		malformed       bool
	}{
		"the first in the order of the node":           {available: all, size: 2, want: []string{gpu0, gpu1}},
		"what must be included comes along":            {available: all, must: []string{gpu3}, size: 2, want: []string{gpu0, gpu3}},
		"only what must be included":                   {available: all, must: []string{gpu3}, size: 1, want: []string{gpu3}},
		"all":                                          {available: all, size: 3, want: []string{gpu0, gpu1, gpu3}},
		"fewer than asked for":                         {available: all, size: 8, want: []string{gpu0, gpu1, gpu3}},
		"none":                                         {available: all, size: 0},
		"unknown devices are left to the kubelet":      {available: []string{"GPU-z", "GPU-a", gpu1}, size: 2, want: []string{gpu1}},
		"an unknown must leaves room for it":           {available: []string{"GPU-z", gpu0, gpu1}, must: []string{"GPU-z"}, size: 2, want: []string{gpu0}},
		"a must that is named twice":                   {available: all, must: []string{gpu1, gpu1}, size: 2, want: []string{gpu0, gpu1}},
		"the same available device counts only once":   {available: []string{gpu0, gpu0, gpu1}, size: 2, want: []string{gpu0, gpu1}},
		"a negative size is rejected":                  {available: all, size: -1, malformed: true},
		"more musts than devices are rejected":         {available: all, must: []string{gpu0, gpu1}, size: 1, malformed: true},
		"a must that is not available is rejected":     {available: []string{gpu0}, must: []string{gpu1}, size: 1, malformed: true},
		"an unknown must that is missing is rejected":  {available: []string{gpu0}, must: []string{"GPU-z"}, size: 1, malformed: true},
		"a size that no node has is answered with all": {available: all, size: 1 << 30, want: []string{gpu0, gpu1, gpu3}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := allocator(t, allocate.Options{}).Preferred(tc.available, tc.must, tc.size)
			var malformed allocate.MalformedRequestError
			if errors.As(err, &malformed) != tc.malformed || (err != nil) != tc.malformed {
				t.Fatalf("error is %v, want malformed = %v", err, tc.malformed)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// boards returns a node of n GPUs without switches: 2i and 2i+1 have four
// NVLinks between them, and four GPUs share a NUMA node.
func boards(n int) *gpu.Node {
	node := gputest.Node(gputest.L4, n)
	for i, l := range node.Links {
		if l.A/2 == l.B/2 {
			node.Links[i].NVLinks = 4
		}
	}
	return node
}

func TestPreferredByTopology(t *testing.T) {
	for name, tc := range map[string]struct {
		node            *gpu.Node
		available, must []int
		size            int
		want            []int
	}{
		"a pair with NVLinks":                          {node: boards(8), available: []int{1, 2, 4, 5, 7}, size: 2, want: []int{4, 5}},
		"the partner of what must be included":         {node: boards(8), available: []int{0, 1, 2, 6, 7}, must: []int{7}, size: 2, want: []int{6, 7}},
		"two pairs of one NUMA node":                   {node: boards(8), available: []int{0, 1, 2, 4, 5, 6, 7}, size: 4, want: []int{4, 5, 6, 7}},
		"one GPU comes from a pair that is broken":     {node: boards(8), available: []int{0, 1, 2, 3, 5, 6, 7}, size: 1, want: []int{5}},
		"one GPU comes from the emptier NUMA node":     {node: boards(8), available: []int{0, 1, 2, 3, 6, 7}, size: 1, want: []int{6}},
		"a pair comes from the emptier NUMA node":      {node: boards(8), available: []int{0, 1, 2, 3, 6, 7}, size: 2, want: []int{6, 7}},
		"three are a pair and what is near":            {node: boards(8), available: []int{0, 2, 4, 5, 6}, size: 3, want: []int{4, 5, 6}},
		"where all are equal the first ones":           {node: boards(8), available: []int{0, 1, 2, 3, 4, 5, 6, 7}, size: 2, want: []int{0, 1}},
		"a fabric of switches joins all, NUMA decides": {node: gputest.Node(gputest.H100, 8), available: []int{1, 3, 4, 6}, size: 2, want: []int{1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			res := resource.Resource{Devices: wholeGPUs(len(tc.node.GPUs), 1)}
			ids := func(places []int) []string {
				var out []string
				for _, i := range places {
					out = append(out, res.Devices[i].ID(0))
				}
				return out
			}
			a := allocate.New(res, allocate.Options{Topology: allocate.NewTopology(tc.node)})
			got, err := a.Preferred(ids(tc.available), ids(tc.must), tc.size)
			assert.NilError(t, err)
			if diff := cmp.Diff(ids(tc.want), got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// used is a device of which replicas are in use.
type used struct{ device, count int }

// free returns the ids of a resource, but for the last replicas of those used.
func free(res resource.Resource, uses ...used) []string {
	in := map[int]int{}
	for _, u := range uses {
		in[u.device] = u.count
	}
	var ids []string
	for i, d := range res.Devices {
		for n := range d.Replicas - in[i] {
			ids = append(ids, d.ID(n))
		}
	}
	return ids
}

func TestPreferredByPolicy(t *testing.T) {
	var (
		four  = resource.Resource{Devices: wholeGPUs(4, 8)}
		mig   = resource.Resource{Devices: migDevices(3, 3, 1)}
		mixed = resource.Resource{Devices: append(wholeGPUs(2, 1), wholeGPUs(3, 4)[2])}
		parts = resource.Resource{Devices: migDevices(2, 2, 2)}
		sizes = resource.Resource{Devices: []resource.Device{{UUID: "GPU-a", GPU: 0, Replicas: 8}, {UUID: "GPU-b", GPU: 1, Replicas: 4}}}
	)
	type picks []string // "device" or "device::replica", by positions
	for name, tc := range map[string]struct {
		res    resource.Resource
		policy config.Policy
		uses   []used
		must   picks
		size   int
		want   picks
	}{
		"distributed takes from the least used": {
			res: four, uses: []used{{0, 2}, {1, 1}, {2, 3}, {3, 1}}, size: 1, want: picks{"1::0"},
		},
		"distributed evens out, also on one GPU": {
			res: four, uses: []used{{0, 5}, {1, 3}, {2, 8}, {3, 8}}, size: 2, want: picks{"1::0", "1::1"},
		},
		"distributed counts what must be included": {
			res: four, policy: config.PolicyDistributed, must: picks{"0::3"}, size: 2, want: picks{"0::3", "1::0"},
		},
		"packed takes from the most used": {
			res: four, policy: config.PolicyPacked, uses: []used{{0, 2}, {1, 7}, {2, 8}, {3, 1}}, size: 3, want: picks{"0::0", "0::1", "1::0"},
		},
		"packed fills up the smaller of two that are idle": {
			res: sizes, policy: config.PolicyPacked, size: 5, want: picks{"0::0", "1::0", "1::1", "1::2", "1::3"},
		},
		"packed goes on with what must be included": {
			res: four, policy: config.PolicyPacked, must: picks{"2::1"}, size: 3, want: picks{"2::0", "2::1", "2::2"},
		},
		"spread takes different GPUs, even where one is less used than the next": {
			res: four, policy: config.PolicySpread, uses: []used{{0, 5}, {1, 3}, {2, 8}, {3, 8}}, size: 2, want: picks{"0::0", "1::0"},
		},
		"spread takes the least used of them": {
			res: four, policy: config.PolicySpread, uses: []used{{0, 5}, {1, 3}, {2, 1}, {3, 4}}, size: 2, want: picks{"1::0", "2::0"},
		},
		"spread goes on with the least used when it has all": {
			res: four, policy: config.PolicySpread, uses: []used{{0, 5}, {1, 2}, {2, 8}, {3, 8}}, size: 4, want: picks{"0::0", "1::0", "1::1", "1::2"},
		},
		"spread avoids the GPU that must be included": {
			res: four, policy: config.PolicySpread, uses: []used{{1, 7}, {2, 8}, {3, 8}}, must: picks{"0::0"}, size: 2, want: picks{"0::0", "1::0"},
		},
		"distributed takes MIG devices of the least used GPU": {
			res: mig, uses: []used{{0, 1}, {1, 1}, {3, 1}, {4, 1}}, size: 2, want: picks{"6", "7"},
		},
		"packed takes MIG devices of the most used GPU": {
			res: mig, policy: config.PolicyPacked, uses: []used{{3, 1}, {6, 1}, {7, 1}}, size: 2, want: picks{"4", "8"},
		},
		"spread takes MIG devices of different GPUs": {
			res: mig, policy: config.PolicySpread, uses: []used{{0, 1}, {1, 1}}, size: 3, want: picks{"2", "3", "6"},
		},
		"spread takes another MIG device before a replica of the same": {
			res: parts, policy: config.PolicySpread, uses: []used{{0, 1}, {1, 2}}, size: 3, want: picks{"0::0", "2::0", "3::0"},
		},
		"distributed takes the least used MIG device of a GPU": {
			res: parts, uses: []used{{0, 1}, {2, 2}, {3, 1}}, size: 1, want: picks{"1::0"},
		},
		"packed takes the most used MIG device of a GPU": {
			res: parts, policy: config.PolicyPacked, uses: []used{{1, 1}}, size: 2, want: picks{"0::0", "1::0"},
		},
		"whole and shared GPUs in one resource": {
			res: mixed, policy: config.PolicySpread, uses: []used{{0, 1}, {2, 3}}, size: 2, want: picks{"1", "2::0"},
		},
		"packed leaves whole GPUs to the last": {
			res: mixed, policy: config.PolicyPacked, uses: []used{{2, 1}}, size: 4, want: picks{"0", "2::0", "2::1", "2::2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ids := func(ps picks) []string {
				var out []string
				for _, p := range ps {
					var device, replica int
					if _, err := fmt.Sscanf(p, "%d::%d", &device, &replica); err != nil {
						if _, err := fmt.Sscan(p, &device); err != nil {
							t.Fatal(err)
						}
					}
					out = append(out, tc.res.Devices[device].ID(replica))
				}
				return out
			}
			got, err := allocate.New(tc.res, allocate.Options{Policy: tc.policy}).Preferred(free(tc.res, tc.uses...), ids(tc.must), tc.size)
			assert.NilError(t, err)
			if diff := cmp.Diff(ids(tc.want), got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// Between GPUs that a policy finds equal, the topology decides.
func TestPreferredByPolicyAndTopology(t *testing.T) {
	res := resource.Resource{Devices: wholeGPUs(8, 2)}
	for name, tc := range map[string]struct {
		policy config.Policy
		uses   []used
		must   int
		size   int
		want   []int
	}{
		"distributed takes idle GPUs that are near each other": {
			policy: config.PolicyDistributed, uses: []used{{0, 1}, {3, 1}, {4, 1}}, must: -1, size: 2, want: []int{6, 7},
		},
		"spread takes what is near to what must be included": {
			policy: config.PolicySpread, must: 5, size: 2, want: []int{4, 5},
		},
		"spread takes all idle GPUs, and of the others what is near": {
			policy: config.PolicySpread, uses: []used{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {5, 1}, {6, 1}, {7, 1}}, must: -1, size: 2, want: []int{4, 5},
		},
		"packed fills GPUs that are near each other": {
			policy: config.PolicyPacked, uses: []used{{1, 2}, {0, 1}, {3, 1}, {4, 1}, {5, 1}}, must: -1, size: 2, want: []int{4, 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := allocate.New(res, allocate.Options{Policy: tc.policy, Topology: allocate.NewTopology(boards(8))})
			var must, want []string
			if tc.must >= 0 {
				must = append(must, res.Devices[tc.must].ID(0))
			}
			for _, i := range tc.want {
				want = append(want, res.Devices[i].ID(0))
			}
			got, err := a.Preferred(free(res, tc.uses...), must, tc.size)
			assert.NilError(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}
