package pools

import (
	"cmp"
	"slices"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
)

// Kinds has the kinds of GPU nodes, which are the kernels and distributions, by the name of the first pool that selects
// the nodes. The name is empty for the nodes outside of pools. Each list is in a fixed order.
type Kinds map[string][]charts.Node

// KindsOf returns the kinds of the GPU nodes. The result is not nil.
func KindsOf(pools []Pool, nodes []*model.Node) Kinds {
	const nfd = "feature.node.kubernetes.io/"
	kinds := Kinds{}
	for _, n := range nodes {
		if !n.HasGPU() {
			continue
		}
		kind := charts.Node{
			Kernel: n.Labels[nfd+"kernel-version.full"], ID: n.Labels[nfd+"system-os_release.ID"],
			Version: n.Labels[nfd+"system-os_release.VERSION_ID"], Major: n.Labels[nfd+"system-os_release.VERSION_ID.major"],
		}
		if pool := First(pools, n.Labels); !slices.Contains(kinds[pool], kind) {
			kinds[pool] = append(kinds[pool], kind)
		}
	}
	for _, list := range kinds {
		slices.SortFunc(list, func(a, b charts.Node) int {
			return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Major, b.Major), cmp.Compare(a.Kernel, b.Kernel))
		})
	}
	return kinds
}

// In returns the kinds of the nodes of a pool. It returns nil only if k is nil.
func (k Kinds) In(pool string) []charts.Node {
	if k == nil {
		return nil
	}
	return append([]charts.Node{}, k[pool]...)
}
