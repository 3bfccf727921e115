package allocate

import "slices"

// maxSteps bounds the work for more than maxSets sets.
const maxSteps = 250_000

// good returns the better set of grow and peel, which is the best one on the nodes that
// vendors build.
func (s *search) good() []int {
	set, value := s.peel()
	for seed := range min(s.n, max(1, maxSteps/(s.n*s.size))) {
		if grown, worth := s.grow(seed); worth > value {
			set, value = grown, worth
		}
	}
	slices.Sort(set)
	return set
}

// peel repeatedly removes the point that is worth least. The groups that remain are larger
// and closer than others.
func (s *search) peel() (set []int, value int64) {
	worth := slices.Clone(s.weight[0])
	for v := range s.n {
		set = append(set, v)
		for w := range s.n {
			worth[v] += s.edge[v*s.n+w]
		}
	}
	for len(set) > s.size {
		least := 0
		for i, v := range set {
			if worth[v] <= worth[set[least]] {
				least = i
			}
		}
		out := set[least]
		set = slices.Delete(set, least, least+1)
		for _, w := range set {
			worth[w] -= s.edge[out*s.n+w]
		}
	}
	for i, v := range set {
		value += s.weight[0][v]
		for _, w := range set[:i] {
			value += s.edge[v*s.n+w]
		}
	}
	return set, value
}

// grow begins with a point and repeatedly adds the one that is worth most. It finds a set
// that is much closer than its surroundings.
func (s *search) grow(seed int) (set []int, value int64) {
	worth := slices.Clone(s.weight[0])
	in := make([]bool, s.n)
	for next := seed; len(set) < s.size; {
		set, in[next] = append(set, next), true
		value += worth[next]
		for w := range worth {
			worth[w] += s.edge[next*s.n+w]
		}
		next = -1
		for v := range worth {
			if !in[v] && (next < 0 || worth[v] > worth[next]) {
				next = v
			}
		}
	}
	return set, value
}
