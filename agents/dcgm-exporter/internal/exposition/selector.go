package exposition

import (
	"slices"
)

// gpu reports whether a GPU is selected, or may have selected GPU instances.
func (s Selector) gpu(g *GPU) bool {
	return s.Flexible || selects(s.GPUs, g.Index) || s.Instances != nil
}

// alone reports whether a GPU itself has metrics, given the number of its GPU instances that have
// metrics.
func (s Selector) alone(g *GPU, instances int) bool {
	return s.Flexible && instances == 0 || selects(s.GPUs, g.Index)
}

// instance reports whether a GPU instance is selected.
func (s Selector) instance(id uint32) bool { return s.Flexible || selects(s.Instances, int(id)) }

// selects reports whether a list selects a number. A nil list selects none, an empty list all.
func selects(list []int, n int) bool {
	return list != nil && (len(list) == 0 || slices.Contains(list, n))
}
