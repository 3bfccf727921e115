package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Target returns the layout with exactly the desired MIG devices that does the least harm to the
// current layout. It destroys the fewest compute instances in use, then the fewest GPU instances,
// then the fewest compute instances. Of several such layouts, it returns the layout with the most room,
// for the largest profiles first. The result is exact, because all layouts of the board with these
// devices are compared. Kept instances have their IDs.
//
// Devices that are parts of a GPU instance share GPU instances if they fit, as in mig-parted: three
// devices 1c.3g.40gb need one GPU instance. A layout that already has the desired devices is returned
// unchanged. GPU instances without a compute instance are used or destroyed.
//
// inUse reports whether a compute instance of the Instance is in use. It is called with GPU
// instances of the current layout: each with all its compute instances, or with one of them. It may be
// nil. If no layout has the desired devices, the error is *Infeasible.
func Target(b mig.Board, now mig.Layout, want map[gpu.Profile]int, inUse func(mig.Instance) bool) (mig.Layout, error) {
	if inUse == nil {
		inUse = func(mig.Instance) bool { return false }
	}
	want = maps.Clone(want)
	for p, n := range want {
		if n < 0 {
			return nil, fmt.Errorf("plan %s: the number of devices is negative: %d", p, n)
		}
	}
	maps.DeleteFunc(want, func(_ gpu.Profile, n int) bool { return n == 0 })
	empty := func(i mig.Instance) bool { return len(i.Compute) == 0 }
	if maps.Equal(now.Devices(), want) && !slices.ContainsFunc(now, empty) {
		return now, nil
	}
	s := newSpace(b)
	demand, causes := s.demand(want)
	if len(causes) > 0 {
		return nil, s.infeasible(want, causes)
	}
	c := newChoice(s, now, demand, inUse)
	low, high, scarce := c.bounds()
	if len(scarce) == 0 {
		s.walk(low, high, c.consider)
	}
	if !c.found {
		return nil, s.infeasible(want, nil)
	}
	return c.layout(), nil
}

// choice searches the layout with the least harm.
type choice struct {
	space  *space
	now    mig.Layout
	demand [][]int
	inUse  func(mig.Instance) bool
	// known caches the computed splits.
	known map[question]answer

	found    bool
	seats    []seat
	harm     harm
	capacity []int
}

// question identifies a split: the kind, the number of its instances, and the places of the kept ones.
type question struct {
	kind, instances int
	kept            uint64
}

type answer struct {
	split
	ok bool
}

func newChoice(s *space, now mig.Layout, demand [][]int, inUse func(mig.Instance) bool) *choice {
	return &choice{space: s, now: now, demand: demand, inUse: inUse, known: map[question]answer{}}
}

// bounds returns the smallest and the largest number of GPU instances of each kind for the demanded
// compute instances. scarce are the kinds that the GPU cannot have enough instances of.
func (c *choice) bounds() (low, high, scarce []int) {
	low, high = make([]int, len(c.space.kinds)), make([]int, len(c.space.kinds))
	for i, k := range c.space.kinds {
		total := sum(c.demand[i])
		for n := 1; n <= min(total, k.Max, c.space.board.MemorySlices); n++ {
			if _, ok := k.divide(nil, n, c.demand[i], c.inUse); !ok {
				continue
			}
			if low[i] == 0 {
				low[i] = n
			}
			high[i] = n
		}
		if total > 0 && low[i] == 0 {
			scarce = append(scarce, i)
		}
	}
	return low, high, scarce
}

// consider compares a candidate with the best one.
func (c *choice) consider(seats []seat, r *room) {
	h := harm{}
	for _, i := range c.now {
		if !slices.ContainsFunc(seats, func(s seat) bool { return c.keepsInstance(i, s) }) {
			h = h.plus(harmOf(i, c.inUse))
		}
	}
	if c.found && c.harm.less(h) {
		return
	}
	for i, n := range r.count {
		if n == 0 {
			continue
		}
		a := c.splitOf(i, n, seats)
		if !a.ok {
			return
		}
		h = h.plus(a.harm)
	}
	if c.found && c.harm.less(h) {
		return
	}
	capacity := r.capacity()
	if c.found && cmp.Or(h.compare(c.harm), slices.Compare(c.capacity, capacity)) >= 0 {
		return
	}
	c.found, c.seats, c.harm, c.capacity = true, slices.Clone(seats), h, capacity
}

func (c *choice) keepsInstance(i mig.Instance, s seat) bool {
	return i.Placement == s.place && i.Profile == c.space.kinds[s.kind].Name
}

// kept returns the current instances that the seats of a kind keep, and their places.
func (c *choice) kept(kind int, seats []seat) ([]mig.Instance, uint64) {
	var kept []mig.Instance
	var places uint64
	for _, s := range seats {
		if s.kind != kind {
			continue
		}
		if i := slices.IndexFunc(c.now, func(i mig.Instance) bool { return c.keepsInstance(i, s) }); i >= 0 {
			kept = append(kept, c.now[i])
			places |= mask(s.place)
		}
	}
	return kept, places
}

func (c *choice) splitOf(kind, instances int, seats []seat) answer {
	kept, places := c.kept(kind, seats)
	q := question{kind, instances, places}
	a, ok := c.known[q]
	if !ok {
		a.split, a.ok = c.space.kinds[kind].divide(kept, instances-len(kept), c.demand[kind], c.inUse)
		c.known[q] = a
	}
	return a
}

// layout returns the layout of the best candidate.
func (c *choice) layout() mig.Layout {
	l := mig.Layout{}
	for kind, k := range c.space.kinds {
		of := slices.DeleteFunc(slices.Clone(c.seats), func(s seat) bool { return s.kind != kind })
		if len(of) == 0 {
			continue
		}
		ways := c.splitOf(kind, len(of), c.seats).parts
		kept, places := c.kept(kind, c.seats)
		for n, i := range kept {
			l = append(l, withCompute(i, ways[n].compute))
		}
		ways = ways[len(kept):]
		for _, s := range of {
			if places&mask(s.place) == 0 {
				l = append(l, mig.Instance{Profile: k.Name, Placement: s.place, Compute: slices.Clone(ways[0].compute)})
				ways = ways[1:]
			}
		}
	}
	l.Sort()
	return l
}

// withCompute returns i with the desired compute instances. Existing ones keep their IDs.
func withCompute(i mig.Instance, want []mig.Compute) mig.Instance {
	want = slices.Clone(want)
	for n := range want {
		if at := slices.IndexFunc(i.Compute, want[n].Equal); at >= 0 {
			want[n] = i.Compute[at]
		}
	}
	i.Compute = want
	return i
}

func sum(list []int) int {
	total := 0
	for _, n := range list {
		total += n
	}
	return total
}
