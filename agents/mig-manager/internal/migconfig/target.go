package migconfig

import (
	"cmp"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// groupByBoard groups GPUs with the same product and board.
func groupByBoard(gpus []mig.GPU) [][]mig.GPU {
	return group(gpus, func(a, b mig.GPU) bool {
		// Boards contain slices, so they cannot be compared with ==.
		return a.PCI.DeviceID == b.PCI.DeviceID && reflect.DeepEqual(a.Board, b.Board)
	})
}

// group groups equal GPUs.
func group(gpus []mig.GPU, same func(a, b mig.GPU) bool) [][]mig.GPU {
	var out [][]mig.GPU
	for _, g := range gpus {
		i := slices.IndexFunc(out, func(of []mig.GPU) bool { return same(of[0], g) })
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], g)
	}
	return out
}

// target returns an item that selects the GPUs in the list some, and no other GPUs in the list all.
// The item selects all GPUs, or all GPUs of some products, or, if other GPUs have the same
// products, GPUs by their indices.
func target(some, all []mig.GPU) Item {
	if len(some) == len(all) {
		return Item{All: true}
	}
	products := Item{All: true, Filters: filtersOf(some, func(p gpu.PCI) Filter { return Filter{Device: p.DeviceID} })}
	selected := products.count(all)
	if selected == len(some) {
		return products
	}
	item := Item{}
	if selected < len(all) {
		item.Filters = products.Filters
	}
	for _, g := range some {
		item.GPUs = append(item.GPUs, g.Index)
	}
	return item
}

// boardTarget is target for GPUs with the same board. If it can, it distinguishes boards of a product
// by the subsystem instead of by indices, which are valid for only one node.
func boardTarget(some, all []mig.GPU) Item {
	item := target(some, all)
	boards := Item{All: true, Filters: filtersOf(some, func(p gpu.PCI) Filter { return Filter{p.DeviceID, p.SubsystemID} })}
	if !item.All && boards.count(all) == len(some) {
		return boards
	}
	return item
}

// count returns the number of GPUs that the item selects.
func (i Item) count(gpus []mig.GPU) int {
	n := 0
	for _, g := range gpus {
		if i.selects(g) {
			n++
		}
	}
	return n
}

// filtersOf returns the filters for GPUs, sorted and without duplicates.
func filtersOf(gpus []mig.GPU, of func(gpu.PCI) Filter) []Filter {
	var out []Filter
	for _, g := range gpus {
		if f := of(g.PCI); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Filter) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Subsystem, b.Subsystem))
	})
	return out
}
