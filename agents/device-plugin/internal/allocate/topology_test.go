package allocate_test

import (
	"slices"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/gpu"
)

// pair returns a node of two GPUs, 3 and 7, on NUMA nodes a and b.
func pair(a, b int, links ...gpu.Link) *gpu.Node {
	return &gpu.Node{GPUs: []gpu.GPU{{Index: 3, NUMANode: a}, {Index: 7, NUMANode: b}}, Links: links}
}

func TestScoreOrdersPairs(t *testing.T) {
	link := func(nvlinks, nvswitch int, path gpu.Path) gpu.Link {
		return gpu.Link{A: 3, B: 7, NVLinks: nvlinks, NVSwitch: nvswitch, Path: path}
	}
	// From worst to best, equal ones together.
	ordered := []struct {
		what  string
		nodes []*gpu.Node
	}{
		{"across NUMA nodes", []*gpu.Node{pair(0, 1, link(0, 0, gpu.PathSystem)), pair(0, 1), pair(-1, -1), pair(0, 1, link(0, 0, ""))}},
		{"one NUMA node", []*gpu.Node{pair(0, 0, link(0, 0, gpu.PathNUMANode)), pair(1, 1), pair(0, 0, link(0, 0, ""))}},
		{"one host bridge", []*gpu.Node{pair(0, 0, link(0, 0, gpu.PathHostBridge))}},
		{"several PCI switches", []*gpu.Node{pair(0, 0, link(0, 0, gpu.PathSwitches))}},
		{"one PCI switch", []*gpu.Node{pair(0, 0, link(0, 0, gpu.PathSwitch))}},
		{"one board", []*gpu.Node{pair(0, 0, link(0, 0, gpu.PathBoard))}},
		{"an NVLink across NUMA nodes", []*gpu.Node{pair(0, 1, link(1, 0, gpu.PathSystem)), pair(0, 1, link(0, 1, gpu.PathSystem))}},
		{"an NVLink on one PCI switch", []*gpu.Node{pair(0, 0, link(1, 0, gpu.PathSwitch))}},
		{"four NVLinks", []*gpu.Node{pair(0, 1, link(4, 0, gpu.PathSystem)), pair(0, 1, link(0, 4, gpu.PathSystem))}},
		{"18 NVLinks to switches", []*gpu.Node{pair(0, 1, link(0, 18, gpu.PathSystem))}},
		{"more than there can be", []*gpu.Node{pair(0, 1, link(1<<40, 0, gpu.PathSystem)), pair(0, 1, link(1<<50, 1<<50, gpu.PathSystem))}},
	}
	before := 0
	for _, tc := range ordered {
		var scores []int
		for _, n := range tc.nodes {
			topo := allocate.NewTopology(n)
			scores = append(scores, topo.Score(3, 7), topo.Score(7, 3))
		}
		if slices.Min(scores) != slices.Max(scores) {
			t.Errorf("%s: scores are %v, want them equal", tc.what, scores)
		}
		if scores[0] <= before {
			t.Errorf("%s: score is %d, want more than the %d before", tc.what, scores[0], before)
		}
		before = scores[0]
	}
}

func TestScoreOfWhatIsNotKnownIsZero(t *testing.T) {
	known := allocate.NewTopology(pair(0, 0, gpu.Link{A: 3, B: 99, NVLinks: 4}, gpu.Link{A: 3, B: 3, NVLinks: 4}))
	var none allocate.Topology
	for name, got := range map[string]int{
		"an unknown GPU":   known.Score(3, 99),
		"another one":      known.Score(99, 3),
		"one GPU":          known.Score(3, 3),
		"no topology":      none.Score(3, 7),
		"an empty node":    allocate.NewTopology(&gpu.Node{}).Score(0, 1),
		"GPUs named twice": allocate.NewTopology(&gpu.Node{GPUs: []gpu.GPU{{Index: 1}, {Index: 1}}}).Score(1, 1),
	} {
		if got != 0 {
			t.Errorf("%s: score is %d, want 0", name, got)
		}
	}
}
