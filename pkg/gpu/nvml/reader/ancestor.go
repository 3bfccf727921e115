package reader

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// ancestorLevels has the level of the PCI tree where each pair of GPUs meets. A level of NVML means
// that two GPUs share something: a board, a switch, a host bridge, a NUMA node. Three GPUs have
// three levels, and the two highest of these are therefore equal. If one GPU has different levels
// to two others, the level between these two is the higher of both, without a call of NVML. This
// saves half of the calls on a node with two sockets.
type ancestorLevels map[[2]int]gonvml.GpuTopologyLevel

// between returns the level of two GPUs, a < b, if it follows from the levels of the GPUs before a.
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
