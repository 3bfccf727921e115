package plan

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/gpu/mig"
)

// harm counts the instances that a change destroys. It is compared by the number in use, then by the
// number of GPU instances, and then by the number of compute instances.
type harm struct{ busy, instances, compute int }

func (h harm) plus(o harm) harm {
	return harm{h.busy + o.busy, h.instances + o.instances, h.compute + o.compute}
}

func (h harm) compare(o harm) int {
	return cmp.Or(cmp.Compare(h.busy, o.busy), cmp.Compare(h.instances, o.instances), cmp.Compare(h.compute, o.compute))
}

func (h harm) less(o harm) bool { return h.compare(o) < 0 }

// harmOf returns the harm of destroying i with all its compute instances.
func harmOf(i mig.Instance, inUse func(mig.Instance) bool) harm {
	h := harmOfParts(i, nil, inUse)
	h.instances++
	if h.busy == 0 && inUse(i) {
		h.busy++
	}
	return h
}

// harmOfParts returns the harm of dividing i into the compute instances in want.
func harmOfParts(i mig.Instance, want []mig.Compute, inUse func(mig.Instance) bool) harm {
	var h harm
	for _, c := range i.Compute {
		if slices.ContainsFunc(want, c.Equal) {
			continue
		}
		h.compute++
		only := i
		only.Compute = []mig.Compute{c}
		if inUse(only) {
			h.busy++
		}
	}
	return h
}
