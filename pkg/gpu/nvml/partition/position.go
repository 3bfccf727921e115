package partition

import (
	"slices"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// pin sets the indices of the pins in gpus, which are in NVML's order, and in the entries of this View.
func (v *View) pin(gpus []mig.GPU) {
	n := gpu.Node{GPUs: make([]gpu.GPU, 0, len(gpus))}
	for i, g := range gpus {
		// Without a minor, the GPU gets no name. NUMANode has the position in gpus, because Apply orders
		// the GPUs of n anew.
		n.GPUs = append(n.GPUs, gpu.GPU{Index: i, Minor: -1, NUMANode: i, UUID: g.UUID, PCI: g.PCI})
	}
	v.reader.pins.Apply(&n)
	for _, at := range n.GPUs {
		g := &gpus[at.NUMANode]
		g.Index, g.Shifted, g.Earlier = at.Index, at.Shifted, at.Earlier
		if k := v.gpus[g.UUID]; k != nil {
			k.gpu.Index, k.gpu.Shifted, k.gpu.Earlier = g.Index, g.Shifted, g.Earlier
		}
	}
	slices.SortStableFunc(gpus, func(a, b mig.GPU) int { return a.Index - b.Index })
}

// indicesFrom returns the indices below count, beginning with first.
func indicesFrom(count, first int) []int {
	var out []int
	if first >= 0 && first < count {
		out = append(out, first)
	}
	for i := range count {
		if i != first {
			out = append(out, i)
		}
	}
	return out
}

// position returns NVML's last known index of a GPU, or -1.
func (r *Reader) position(id gpu.UUID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.positions[id]; ok {
		return at
	}
	return -1
}

// index returns the index of a GPU, or -1.
func (r *Reader) index(id gpu.UUID) int {
	if at, known := r.pins.Index(id); known {
		return at
	}
	return r.position(id)
}
