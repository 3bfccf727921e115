package pass

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// poolsOf returns the pools of stages, in their order.
func poolsOf(stages []model.Stage) []pools.Pool {
	ordered := slices.SortedStableFunc(slices.Values(stages), func(a, b model.Stage) int { return cmp.Compare(a.PoolOrder, b.PoolOrder) })
	var out []pools.Pool
	for _, st := range ordered {
		if st.Pool != "" && (len(out) == 0 || out[len(out)-1].Name != st.Pool) {
			out = append(out, pools.Pool{Name: st.Pool, NodeSelector: st.NodeSelector})
		}
	}
	return out
}

// addOverlaps adds a problem for the GPU nodes that several pools select. Such a node belongs to the
// first of these pools, and runs only the agents of that pool. No stage waits for a fix of the labels.
func (w *walk) addOverlaps() {
	for _, n := range w.state.Nodes {
		if names := w.overlaps[n.Name]; len(names) > 0 && n.HasGPU() {
			w.health.Overlap(n.Name, fmt.Sprintf("the pools %s have the labels of the node, which stays in %s", strings.Join(names, " and "), names[0]))
		}
	}
}

// nodesOf returns the nodes that can validate a stage. If several pools select a node, the node
// validates only the stages of the first pool.
func (w *walk) nodesOf(st model.Stage) []*model.Node {
	if st.Pool == "" || len(w.overlaps) == 0 {
		return w.state.Nodes
	}
	return slices.DeleteFunc(slices.Clone(w.state.Nodes), func(n *model.Node) bool {
		names := w.overlaps[n.Name]
		return len(names) > 0 && names[0] != st.Pool
	})
}
