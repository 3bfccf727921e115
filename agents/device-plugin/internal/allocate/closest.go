package allocate

const (
	// maxSets is the largest number of sets of GPUs that are compared one by one. It
	// covers sets of any size among 16 GPUs, of which 8 of 16 are the most, and takes a
	// tenth of a millisecond.
	maxSets = 12870
	// primary is a factor with which any difference of the links within a set outweighs
	// the links to other GPUs.
	primary = 1 << 32
)

// search finds the set of points with the highest sum of the weights of the points and of
// the edges between them.
type search struct {
	n, size int
	// weight has, for each number of points chosen, what one more is worth.
	weight [][]int64
	// edge has n rows.
	edge []int64

	chosen []int
	best   []int
	value  int64
}

// closest returns the size GPUs of a class that are connected best, by the rules of
// Preferred. The class has more GPUs than that.
func (c *choice) closest(class []int, size int) []int {
	n := len(class)
	s := &search{n: n, size: size, weight: [][]int64{make([]int64, n)}, edge: make([]int64, n*n)}
	for i, g := range class {
		for h, t := range c.gpus {
			score := int64(c.between(g, h))
			if t.picked > 0 {
				s.weight[0][i] += score * primary
			}
			// The sum of the links of a set's GPUs to all free or taken GPUs counts
			// the links within the set twice. Among sets whose links within are
			// equal, this sum orders by the links to the GPUs that stay free.
			if t.free > 0 || t.picked > 0 {
				s.weight[0][i] -= score
			}
		}
		for j, h := range class {
			s.edge[i*n+j] = int64(c.between(g, h)) * primary
		}
	}
	var best []int
	if fewSets(n, size) {
		best = s.exact()
	} else {
		best = s.good()
	}
	out := make([]int, 0, size)
	for _, i := range best {
		out = append(out, class[i])
	}
	return out
}

// between returns the score of two GPUs of the resource.
func (c *choice) between(g, h int) int32 {
	return c.opts.Topology.between(c.Allocator.gpus[g].row, c.Allocator.gpus[h].row)
}

// fewSets reports whether there are at most maxSets sets of size among n.
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

// exact returns the best of all sets, the first of equal ones.
func (s *search) exact() []int {
	for range s.size {
		s.weight = append(s.weight, make([]int64, s.n))
	}
	s.chosen = make([]int, s.size)
	s.extend(0, 0, 0)
	return s.best
}

// extend tries each point from the given one on as the next point of the set. The points
// chosen before are worth value.
func (s *search) extend(depth, from int, value int64) {
	weight := s.weight[depth]
	left := s.size - depth
	if left == 1 {
		for v := from; v < s.n; v++ {
			if s.best == nil || value+weight[v] > s.value {
				s.chosen[depth] = v
				s.best, s.value = append(s.best[:0], s.chosen...), value+weight[v]
			}
		}
		return
	}
	for v := from; v <= s.n-left; v++ {
		s.chosen[depth] = v
		next, edge := s.weight[depth+1], s.edge[v*s.n:(v+1)*s.n]
		for w := v + 1; w < s.n; w++ {
			next[w] = weight[w] + edge[w]
		}
		s.extend(depth+1, v+1, value+weight[v])
	}
}
