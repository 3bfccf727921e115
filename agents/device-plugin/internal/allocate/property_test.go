package allocate_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// randomNode returns n GPUs with links of which many are alike, so that ties
// are frequent.
func randomNode(r *rand.Rand, n int) *gpu.Node {
	node := &gpu.Node{}
	paths := []gpu.Path{gpu.PathSystem, gpu.PathNUMANode, gpu.PathSwitch, gpu.PathUndetermined}
	kinds := 1 + r.IntN(4)
	for i := range n {
		node.GPUs = append(node.GPUs, gpu.GPU{Index: i, NUMANode: r.IntN(2)})
		for a := range i {
			l := gpu.Link{A: a, B: i, Path: paths[r.IntN(kinds)]}
			if r.IntN(3) == 0 {
				l.NVLinks = r.IntN(kinds)
			}
			node.Links = append(node.Links, l)
		}
	}
	return node
}

// order is what Preferred promises of a set: the first number is the higher the
// better, the second the lower the better.
type order struct{ inside, outside int }

// measure returns the order of a set among the available GPUs, both as masks.
func measure(t allocate.Topology, set, available uint) order {
	var o order
	for a := range 16 {
		for b := range 16 {
			switch {
			case set>>a&1 == 0:
			case set>>b&1 == 1 && a < b:
				o.inside += t.Score(a, b)
			case set>>b&1 == 0 && available>>b&1 == 1:
				o.outside += t.Score(a, b)
			}
		}
	}
	return o
}

// bruteForce returns the best set by trying all.
func bruteForce(t allocate.Topology, available, must uint, size int) uint {
	var (
		best  uint
		value order
	)
	for set := uint(1); set <= available; set++ {
		if set&^available != 0 || must&^set != 0 || bits.OnesCount(set) != size {
			continue
		}
		o := measure(t, set, available)
		// Of equal sets that one is first which has the lowest GPU that the
		// other has not.
		first := (set^best)&-(set^best)&set != 0
		if best == 0 || o.inside > value.inside || o.inside == value.inside &&
			(o.outside < value.outside || o.outside == value.outside && first) {
			best, value = set, o
		}
	}
	return best
}

func members(set uint) []string {
	var ids []string
	for i := range 16 {
		if set>>i&1 == 1 {
			ids = append(ids, fmt.Sprintf("GPU-%02d", i))
		}
	}
	return ids
}

func plainGPUs(n int) resource.Resource {
	res := resource.Resource{Name: resource.GPU}
	for i := range n {
		res.Devices = append(res.Devices, resource.Device{UUID: gpu.UUID(fmt.Sprintf("GPU-%02d", i)), GPU: i, Replicas: 1})
	}
	return res
}

// TestPreferredIsTheBestSet compares with all sets, on nodes of all sizes with
// random links, random GPUs available and random musts.
func TestPreferredIsTheBestSet(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test that can be repeated
		n := 1 + r.IntN(9)
		if seed%100 == 0 {
			n = 16
		}
		topo := allocate.NewTopology(randomNode(r, n))
		var available, must uint
		for available == 0 {
			available = r.UintN(1 << n)
		}
		if seed%200 == 0 {
			available = 1<<n - 1 // an idle node is the longest search
		}
		must = available & r.UintN(1<<n) & r.UintN(1<<n) & r.UintN(1<<n)
		size := bits.OnesCount(must) + r.IntN(1+bits.OnesCount(available)-bits.OnesCount(must))
		if size == 0 {
			continue
		}
		ids := members(available)
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		a := allocate.New(plainGPUs(n), allocate.Options{
			Topology: topo,
			// It must not matter where nothing is shared.
			Policy: []config.Policy{"", config.PolicyDistributed, config.PolicyPacked, config.PolicySpread}[r.IntN(4)],
		})
		got, err := a.Preferred(ids, members(must), size)
		if err != nil {
			t.Fatal(err)
		}
		want := bruteForce(topo, available, must, size)
		if diff := cmp.Diff(members(want), got); diff != "" {
			t.Fatalf("seed %d: %d of %v with %v (-want +got):\n%s", seed, size, members(available), members(must), diff)
		}
	}
}

// What the search for many GPUs finds is as good as the best set on nodes as
// they are built.
func TestPreferredOfMoreThan16GPUs(t *testing.T) {
	topo := allocate.NewTopology(boards(32))
	a := allocate.New(plainGPUs(32), allocate.Options{Topology: topo})
	var available []string
	for i := range 32 {
		if i%8 != 1 { // of each second NUMA node a GPU is taken
			available = append(available, fmt.Sprintf("GPU-%02d", i))
		}
	}
	for size, want := range map[int][]int{
		1:  {0},
		2:  {2, 3},
		4:  {4, 5, 6, 7},
		8:  {4, 5, 6, 7, 12, 13, 14, 15},
		12: {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23},
	} {
		got, err := a.Preferred(available, nil, size)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range want {
			ids = append(ids, fmt.Sprintf("GPU-%02d", i))
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("%d of 28 GPUs (-want +got):\n%s", size, diff)
		}
	}
}
