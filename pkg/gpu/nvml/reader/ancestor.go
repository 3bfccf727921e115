package reader

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// ancestorLevels has the levels of the PCI tree at which pairs of GPUs meet. Each level of
// NVML says that two GPUs share something: a board, a switch, a host bridge, a
// NUMA node. So of the levels of three GPUs the two highest are the same: where
// the levels from one GPU to two others differ, the higher one is that of the two
// others, and NVML need not be asked. On a node with two sockets that saves half
// of the calls.
type ancestorLevels map[[2]int]gonvml.GpuTopologyLevel

// between returns the level of two GPUs, a < b, if it follows from those of
// the GPUs before a.
func (t ancestorLevels) between(a, b int) (gonvml.GpuTopologyLevel, bool) {
	for c := range a {
		toA, okA := t[[2]int{c, a}]
		toB, okB := t[[2]int{c, b}]
		if okA && okB && toA != toB {
			return max(toA, toB), true
		}
	}
	return 0, false
}
