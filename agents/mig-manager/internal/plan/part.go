package plan

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/gpu/mig"
)

// part is a way to divide a GPU instance into compute instances.
type part struct {
	compute []mig.Compute
	// count has the number of compute instances of each compute instance profile.
	count []int
}

// parts returns all ways to divide an instance of p into at least one compute instance. Like drivers,
// it places large compute instances first, at the lowest free start.
func parts(p mig.Profile) []part {
	kinds := slices.Clone(p.Compute)
	slices.SortFunc(kinds, func(a, b mig.ComputeProfile) int { return cmp.Compare(b.Slices, a.Slices) })
	var list []part
	count := make([]int, len(kinds))
	var compute []mig.Compute
	var step func(i, spot int, used uint64)
	step = func(i, spot int, used uint64) {
		if i == len(kinds) {
			if len(compute) > 0 {
				list = append(list, newPart(p, compute))
			}
			return
		}
		k := kinds[i]
		if spot == len(k.Placements) || count[i] == k.Max {
			step(i+1, 0, used)
			return
		}
		at := k.Placements[spot]
		if used&mask(at) == 0 && at.Start+at.Size <= p.Name.GPUSlices {
			compute = append(compute, mig.Compute{Slices: k.Slices, Placement: at})
			count[i]++
			step(i, spot+1, used|mask(at))
			count[i]--
			compute = compute[:len(compute)-1]
		}
		step(i, spot+1, used)
	}
	step(0, 0, 0)
	return list
}

// distinct returns the first part for each set of compute instances.
func distinct(all []part) []part {
	var list []part
	for _, p := range all {
		if !slices.ContainsFunc(list, func(o part) bool { return slices.Equal(o.count, p.count) }) {
			list = append(list, p)
		}
	}
	return list
}

func newPart(p mig.Profile, compute []mig.Compute) part {
	n := part{compute: slices.Clone(compute), count: make([]int, len(p.Compute))}
	slices.SortFunc(n.compute, func(a, b mig.Compute) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	for _, c := range compute {
		n.count[slices.IndexFunc(p.Compute, func(o mig.ComputeProfile) bool { return o.Slices == c.Slices })]++
	}
	return n
}

// split is a choice of parts for all instances of a kind: first for the kept ones, in their order,
// then for the new ones.
type split struct {
	parts []part
	harm  harm
}

// divide returns the split that has exactly the demanded compute instances and does the least harm. It
// splits the kept instances, and new instances, whose number is fresh. Each instance gets at least one
// compute instance. Without such a split, it returns false.
func (k kind) divide(kept []mig.Instance, fresh int, demand []int, inUse func(mig.Instance) bool) (split, bool) {
	var best split
	found := false
	left := slices.Clone(demand)
	chosen := make([]part, 0, len(kept)+fresh)
	var step func(n, first int, h harm)
	step = func(n, first int, h harm) {
		switch {
		case found && !h.less(best.harm):
			return
		case n == len(kept)+fresh:
			if !slices.ContainsFunc(left, func(n int) bool { return n != 0 }) {
				best, found = split{slices.Clone(chosen), h}, true
			}
			return
		}
		ways := k.parts
		if n >= len(kept) {
			ways = k.fresh
		}
		for i := first; i < len(ways); i++ {
			p := ways[i]
			if !covers(left, p.count) {
				continue
			}
			more, next := h, 0
			if n < len(kept) {
				more = h.plus(harmOfParts(kept[n], p.compute, inUse))
			} else {
				next = i // new instances are equal, so one order of their parts is enough
			}
			subtract(left, p.count, 1)
			chosen = append(chosen, p)
			step(n+1, next, more)
			chosen = chosen[:len(chosen)-1]
			subtract(left, p.count, -1)
		}
	}
	step(0, 0, harm{})
	return best, found
}

func covers(left, count []int) bool {
	for i, n := range count {
		if n > left[i] {
			return false
		}
	}
	return true
}

func subtract(left, count []int, times int) {
	for i, n := range count {
		left[i] -= n * times
	}
}
