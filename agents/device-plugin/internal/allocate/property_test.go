package allocate_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/resource"
	"outrigger.dev/pkg/gpu"
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
func measure(t *allocate.Topology, set, available uint) order {
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
func bruteForce(t *allocate.Topology, available, must uint, size int) uint {
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

// sharedCase is a random request for devices that are shared or parts of GPUs.
type sharedCase struct {
	res             resource.Resource
	available, must []string
	size            int
}

func randomShared(r *rand.Rand) sharedCase {
	var c sharedCase
	for g := range 1 + r.IntN(20) {
		parts := 1
		if r.IntN(2) == 0 {
			parts += r.IntN(7)
		}
		for p := range parts {
			c.res.Devices = append(c.res.Devices, resource.Device{
				UUID: gpu.UUID(fmt.Sprintf("GPU-%02d-%d", g, p)), GPU: g, Replicas: 1 + r.IntN(4),
			})
		}
	}
	taken := r.IntN(4)
	for _, d := range c.res.Devices {
		for n := range d.Replicas {
			if r.IntN(4) >= taken {
				c.available = append(c.available, d.ID(n))
				if r.IntN(8) == 0 {
					c.must = append(c.must, d.ID(n))
				}
			}
		}
	}
	r.Shuffle(len(c.available), func(i, j int) { c.available[i], c.available[j] = c.available[j], c.available[i] })
	c.size = len(c.must) + r.IntN(len(c.available)+3)
	return c
}

// load is what is known of a GPU before and after a request.
type load struct{ used, free, must, picked int }

// loads returns the load of each GPU, by its index.
func (c sharedCase) loads(t *testing.T, got []string) map[int]*load {
	t.Helper()
	out := map[int]*load{}
	for _, d := range c.res.Devices {
		if out[d.GPU] == nil {
			out[d.GPU] = &load{}
		}
		l := out[d.GPU]
		for n := range d.Replicas {
			switch id := d.ID(n); {
			case !slices.Contains(c.available, id):
				l.used++
			case slices.Contains(c.must, id):
				l.must++
			case slices.Contains(got, id):
				l.picked++
			default:
				l.free++
			}
		}
	}
	return out
}

func TestPreferredOfSharedDevicesKeepsToThePolicy(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test that can be repeated
		c := randomShared(r)
		topo := allocate.NewTopology(randomNode(r, 20))
		for policy, check := range map[config.Policy]func(map[int]*load) string{
			config.PolicyDistributed: checkDistributed,
			config.PolicyPacked:      checkPacked,
			config.PolicySpread:      checkSpread,
		} {
			a := allocate.New(c.res, allocate.Options{Policy: policy, Topology: topo})
			got, err := a.Preferred(c.available, c.must, c.size)
			if err != nil {
				t.Fatal(err)
			}
			checkContract(t, c.available, c.must, c.size, got)
			if wrong := check(c.loads(t, got)); wrong != "" {
				t.Fatalf("seed %d, %s: %s\n%d of %v with %v: %v", seed, policy, wrong, c.size, c.available, c.must, got)
			}
		}
	}
}

// checkContract checks what holds of any answer.
func checkContract(t *testing.T, available, must []string, size int, got []string) {
	t.Helper()
	offered := map[string]bool{}
	for _, id := range available {
		offered[id] = true
	}
	if want := min(size, len(offered)); len(got) != want {
		t.Fatalf("%d devices, want %d", len(got), want)
	}
	seen := map[string]bool{}
	for _, id := range got {
		if seen[id] || !offered[id] {
			t.Fatalf("%q is twice in the answer, or was not available", id)
		}
		seen[id] = true
	}
	for _, id := range must {
		if !seen[id] {
			t.Fatalf("%q must be included, and is not", id)
		}
	}
}

// checkDistributed: nobody is served by a GPU while another serves fewer.
func checkDistributed(loads map[int]*load) string {
	for g, l := range loads {
		for h, m := range loads {
			if l.picked > 0 && m.free > 0 && l.used+l.must+l.picked-1 > m.used+m.must+m.picked {
				return fmt.Sprintf("GPU %d was taken, while GPU %d was used less", g, h)
			}
		}
	}
	return ""
}

// checkPacked: all GPUs but one are used up, and none that is used more is left.
func checkPacked(loads map[int]*load) string {
	open := 0
	for g, l := range loads {
		if l.picked > 0 && l.free > 0 {
			open++
		}
		for h, m := range loads {
			if l.picked > 0 && m.picked == 0 && m.free > 0 && m.used+m.must > l.used+l.must {
				return fmt.Sprintf("GPU %d was taken, while GPU %d was used more", g, h)
			}
		}
	}
	if open > 1 {
		return fmt.Sprintf("%d GPUs were begun", open)
	}
	return ""
}

// checkSpread: no GPU is taken twice while there is another, and of those that
// are taken first none is used more than one that is not.
func checkSpread(loads map[int]*load) string {
	for g, l := range loads {
		for h, m := range loads {
			untouched := m.must+m.picked == 0 && m.free > 0
			if l.picked > 0 && l.must+l.picked > 1 && untouched {
				return fmt.Sprintf("GPU %d was taken again, while GPU %d was not taken", g, h)
			}
			if l.picked > 0 && untouched && l.used > m.used {
				return fmt.Sprintf("GPU %d was taken, while GPU %d was used less", g, h)
			}
		}
	}
	return ""
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
