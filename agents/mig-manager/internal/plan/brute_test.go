package plan_test

import (
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// What follows is the second, independent answer to what a board admits: it walks over the
// memory slices, and knows the rule of the media engines by the names of the profiles, as
// NVIDIA's documentation puts it, and not by counts of engines.

// allLayouts returns every layout of a board, each GPU instance with one compute instance.
func allLayouts(b mig.Board) []mig.Layout {
	var all []mig.Layout
	var fill func(slice int, l mig.Layout)
	fill = func(slice int, l mig.Layout) {
		if slice >= b.MemorySlices {
			all = append(all, slices.Clone(l))
			return
		}
		fill(slice+1, l)
		for _, p := range b.Profiles {
			for _, at := range p.Placements {
				if at.Start != slice {
					continue
				}
				n := p.Name.GPUSlices
				i := mig.Instance{Profile: p.Name, Placement: at, Compute: []mig.Compute{{Slices: n, Placement: gpu.Placement{Size: n}}}}
				if more := append(slices.Clone(l), i); legal(b, more) == "" {
					fill(slice+at.Size, more)
				}
			}
		}
	}
	fill(0, nil)
	return all
}

// legal returns what is wrong with the GPU instances of a layout.
func legal(b mig.Board, l mig.Layout) string {
	compute, media, whole, ordinary := 0, 0, 0, 0
	for n, i := range l {
		p, ok := b.Profile(i.Profile)
		if !ok || !slices.Contains(p.Placements, i.Placement) {
			return i.Profile.String() + " cannot be there"
		}
		same := 0
		for m, o := range l {
			if m != n && i.Placement.Start < o.Placement.Start+o.Placement.Size && o.Placement.Start < i.Placement.Start+i.Placement.Size {
				return i.Profile.String() + " overlaps " + o.Profile.String()
			}
			if o.Profile == i.Profile {
				same++
			}
		}
		if same > p.Max {
			return "too many of " + i.Profile.String()
		}
		compute += i.Profile.GPUSlices
		switch i.Profile.Attribute {
		case "-me":
		case "+me.all":
			whole++
			media++
		case "+me":
			media++
			ordinary++
		default:
			ordinary++
		}
	}
	switch {
	case compute > b.ComputeSlices:
		return "too many compute slices"
	case media > 1:
		return "two instances have media extensions"
	case whole > 0 && ordinary > 0:
		return "all media engines are taken by one instance"
	}
	return ""
}

// legalCompute returns what is wrong with the compute instances of a layout.
func legalCompute(b mig.Board, l mig.Layout) string {
	for _, i := range l {
		p, _ := b.Profile(i.Profile)
		for n, c := range i.Compute {
			kind, ok := p.Of(c.Slices)
			if !ok || !slices.Contains(kind.Placements, c.Placement) {
				return i.Device(c).String() + " cannot be there"
			}
			same := 0
			for _, o := range i.Compute[:n] {
				if o.Slices == c.Slices {
					same++
				}
				if c.Placement.Start < o.Placement.Start+o.Placement.Size && o.Placement.Start < c.Placement.Start+c.Placement.Size {
					return i.Device(c).String() + " overlaps " + i.Device(o).String()
				}
			}
			if same >= kind.Max {
				return "too many of " + i.Device(c).String()
			}
		}
	}
	return ""
}

// divisions returns every way to have compute instances in a GPU instance, also none.
func divisions(p mig.Profile) [][]mig.Compute {
	var all [][]mig.Compute
	var fill func(slice int, has []mig.Compute)
	fill = func(slice int, has []mig.Compute) {
		if slice >= p.Name.GPUSlices {
			if legalCompute(mig.Board{Profiles: []mig.Profile{p}}, mig.Layout{{Profile: p.Name, Compute: has}}) == "" {
				all = append(all, slices.Clone(has))
			}
			return
		}
		fill(slice+1, has)
		for _, c := range p.Compute {
			for _, at := range c.Placements {
				if at.Start == slice {
					fill(slice+at.Size, append(slices.Clone(has), mig.Compute{Slices: c.Slices, Placement: at}))
				}
			}
		}
	}
	fill(0, nil)
	return all
}

// divide returns every layout with the GPU instances of l and some compute instances.
func divide(b mig.Board, l mig.Layout) []mig.Layout {
	all := []mig.Layout{{}}
	for _, i := range l {
		p, _ := b.Profile(i.Profile)
		var more []mig.Layout
		for _, before := range all {
			for _, compute := range divisions(p) {
				i.Compute = compute
				more = append(more, append(slices.Clone(before), i))
			}
		}
		all = more
	}
	return all
}

// capacity returns how many more instances of each profile fit, the largest first.
func capacity(b mig.Board, l mig.Layout) []int {
	order := slices.Clone(b.Profiles)
	slices.SortStableFunc(order, func(x, y mig.Profile) int {
		return slices.Compare(
			[]int{y.Name.GPUSlices, y.Placements[0].Size, x.Number}, []int{x.Name.GPUSlices, x.Placements[0].Size, y.Number})
	})
	var free []int
	for _, p := range order {
		most := 0
		var try func(from int, l mig.Layout, n int)
		try = func(from int, l mig.Layout, n int) {
			most = max(most, n)
			for at := from; at < len(p.Placements); at++ {
				if more := append(slices.Clone(l), mig.Instance{Profile: p.Name, Placement: p.Placements[at]}); legal(b, more) == "" {
					try(at+1, more, n+1)
				}
			}
		}
		try(0, l, 0)
		free = append(free, most)
	}
	return free
}

// multisets returns a layout for each multiset of devices that there is, by its key.
func multisets(all []mig.Layout, without string) map[string]mig.Layout {
	found := map[string]mig.Layout{}
	for _, l := range all {
		if k := key(l.Devices()); without == "" || !strings.Contains(k, without) {
			found[k] = l
		}
	}
	return found
}
