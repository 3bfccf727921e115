package allocate

import "outrigger.dev/pkg/gpu"

// The parts of the score of a pair of GPUs, with the weights of NVIDIA's device plugin
// (go-gpuallocator): an NVLink counts more than any path on the PCI bus, and the path
// decides between pairs with equally many NVLinks. Unlike in NVIDIA's device plugin, links
// to a switch also count, because both GPUs reach each other over them at full speed.
const (
	scoreSystem     = 10
	scoreNUMANode   = 20
	scoreHostBridge = 30
	scoreSwitches   = 40
	scoreSwitch     = 50
	scoreBoard      = 60
	scoreNVLink     = 100
	// maxNVLinks is above the number of NVLinks of any GPU. It keeps sums of scores below
	// 2^31 on the largest node.
	maxNVLinks = 100
)

// Topology has the scores of pairs of GPUs: a higher score is a better connection. The
// lower NVML index of a pair comes first. A Topology does not change.
type Topology map[[2]int]int

// NewTopology returns the topology of a node. Build it once for each snapshot.
func NewTopology(n *gpu.Node) Topology {
	t, gpus := Topology{}, map[int]*gpu.GPU{}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		for index, other := range gpus {
			// This score holds if the driver reports no link between the two GPUs.
			t.set(index, g.Index, pciScore(gpu.PathUndetermined, other, g))
		}
		gpus[g.Index] = g
	}
	for _, l := range n.Links {
		a, b := gpus[l.A], gpus[l.B]
		if a == nil || b == nil {
			continue
		}
		links := min(max(l.NVLinks, 0)+max(l.NVSwitch, 0), maxNVLinks)
		t.set(l.A, l.B, pciScore(l.Path, a, b)+links*scoreNVLink)
	}
	return t
}

func (t Topology) set(a, b, score int) {
	if a != b {
		t[pair(a, b)] = score
	}
}

// Score returns the score of the connection of two GPUs, by their NVML indices. Higher is
// better. It is 0 if a GPU is unknown, or if both are the same GPU.
func (t Topology) Score(a, b int) int { return t[pair(a, b)] }

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// pciScore returns the part of the score that depends on the PCI bus. If the driver does
// not report the path, the NUMA nodes decide.
func pciScore(p gpu.Path, a, b *gpu.GPU) int {
	switch p {
	case gpu.PathBoard:
		return scoreBoard
	case gpu.PathSwitch:
		return scoreSwitch
	case gpu.PathSwitches:
		return scoreSwitches
	case gpu.PathHostBridge:
		return scoreHostBridge
	case gpu.PathNUMANode:
		return scoreNUMANode
	case gpu.PathSystem:
		return scoreSystem
	case gpu.PathUndetermined:
	}
	if a.NUMANode >= 0 && a.NUMANode == b.NUMANode {
		return scoreNUMANode
	}
	return scoreSystem
}
