package allocate

import "slices"

const (
	// maxSets is the largest number of sets of GPUs that are compared one by one. It is
	// the number of sets of 8 among 16 GPUs, which covers sets of any size among 16. The
	// comparison takes a tenth of a millisecond.
	maxSets = 12870
	// primary is a factor that makes any difference of the links within a set outweigh
	// the links to other GPUs.
	primary = 1 << 32
)

// search finds the set of points with the highest sum of the weights of the points and of
// the edges between them.
type search struct {
	n, size int
	weight  []int64
	// edge has n rows.
	edge [][]int64

	chosen []int
	best   []int
	value  int64
}

// closest returns the best connected set of GPUs of a class, by the rules of Preferred. The
// parameter size is the number of GPUs in the set. The class must have more GPUs than that.
func (c *choice) closest(class []int, size int) []int {
	n := len(class)
	s := &search{n: n, size: size, weight: make([]int64, n), edge: make([][]int64, n)}
	for i, g := range class {
		for h, t := range c.gpus {
			score := c.score(g, h)
			if t.picked > 0 {
				s.weight[i] += score * primary
			}
			// Prefer sets with few links to GPUs that stay free. The sum of the links of
			// a set's GPUs to all free or picked GPUs also counts the links within the
			// set, twice. This does not matter, because the sum only decides between
			// sets whose internal links are equal.
			if t.free > 0 || t.picked > 0 {
				s.weight[i] -= score
			}
		}
		for _, h := range class {
			s.edge[i] = append(s.edge[i], c.score(g, h)*primary)
		}
	}
	if fewSets(n, size) {
		s.exact(0, 0)
	} else {
		s.greedy()
	}
	out := make([]int, 0, size)
	for _, i := range s.best {
		out = append(out, class[i])
	}
	return out
}

// score returns how well two GPUs of the resource are connected.
func (c *choice) score(g, h int) int64 {
	return int64(c.opts.Topology.Score(c.Allocator.gpus[g].index, c.Allocator.gpus[h].index))
}

// fewSets reports whether n GPUs have at most maxSets sets of this size.
func fewSets(n, size int) bool {
	sets := 1
	for i := 1; i <= min(size, n-size); i++ {
		sets = sets * (n - i + 1) / i
		if sets > maxSets {
			return false
		}
	}
	return true
}

// exact finds the best of all sets, and the first among equal ones. It extends the chosen
// points by each other point in turn. The parameter from is the first of these points, and
// value is the sum of the chosen points.
func (s *search) exact(from int, value int64) {
	left := s.size - len(s.chosen)
	if left == 0 {
		if s.best == nil || value > s.value {
			s.best, s.value = slices.Clone(s.chosen), value
		}
		return
	}
	for v := from; v <= s.n-left; v++ {
		more := s.weight[v]
		for _, w := range s.chosen {
			more += s.edge[v][w]
		}
		s.chosen = append(s.chosen, v)
		s.exact(v+1, value+more)
		s.chosen = s.chosen[:len(s.chosen)-1]
	}
}

// greedy repeatedly removes the point with the lowest worth, and the last among equal ones,
// until size points remain. This favors large, well connected groups. It is used for more
// than maxSets sets.
func (s *search) greedy() {
	worth := slices.Clone(s.weight)
	var set []int
	for v := range s.n {
		set = append(set, v)
		for w := range s.n {
			worth[v] += s.edge[v][w]
		}
	}
	for len(set) > s.size {
		least := 0
		for i, v := range set {
			if worth[v] <= worth[set[least]] {
				least = i
			}
		}
		for _, w := range set {
			worth[w] -= s.edge[set[least]][w]
		}
		set = slices.Delete(set, least, least+1)
	}
	s.best = set
}
