package pools

import (
	"cmp"
	"maps"
	"slices"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
)

// Kind is a kind of GPU nodes: the kernel and the distribution of nodes in one pool.
type Kind struct {
	// Pool is the name of the first pool that selects the nodes. It is empty for the nodes outside of pools.
	Pool string
	Node charts.Node
}

// Kinds returns the kinds of the GPU nodes, in a fixed order. The result is not nil.
func Kinds(pools []Pool, nodes []*model.Node) []Kind {
	const nfd = "feature.node.kubernetes.io/"
	found := map[Kind]bool{}
	for _, n := range nodes {
		if !n.HasGPU() {
			continue
		}
		k := Kind{Node: charts.Node{
			Kernel: n.Labels[nfd+"kernel-version.full"], ID: n.Labels[nfd+"system-os_release.ID"],
			Version: n.Labels[nfd+"system-os_release.VERSION_ID"], Major: n.Labels[nfd+"system-os_release.VERSION_ID.major"],
		}}
		if names := Selecting(pools, n.Labels); len(names) > 0 {
			k.Pool = names[0]
		}
		found[k] = true
	}
	kinds := slices.AppendSeq([]Kind{}, maps.Keys(found))
	slices.SortFunc(kinds, func(a, b Kind) int {
		x, y := a.Node, b.Node
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Major, y.Major), cmp.Compare(x.Kernel, y.Kernel))
	})
	return kinds
}

// NodesOf returns the nodes of the kinds in a pool. It returns nil if kinds is nil.
func NodesOf(pool string, kinds []Kind) []charts.Node {
	if kinds == nil {
		return nil
	}
	nodes := []charts.Node{}
	for _, k := range kinds {
		if k.Pool == pool {
			nodes = append(nodes, k.Node)
		}
	}
	return nodes
}
