package allocate

import "outrigger.dev/pkg/gpu"

// The parts of the score of a pair of GPUs, with the weights of NVIDIA's device plugin
// (go-gpuallocator): an NVLink counts more than any path on the PCI bus, and the path
// decides between pairs with equally many NVLinks. Unlike there, links to a switch count
// as well, because both GPUs reach each other over them at full speed.
const (
	scoreSystem     = 10
	scoreNUMANode   = 20
	scoreHostBridge = 30
	scoreSwitches   = 40
	scoreSwitch     = 50
	scoreBoard      = 60
	scoreNVLink     = 100
	// maxNVLinks is more than any GPU has. It keeps sums of scores in an int32
	// on the largest node.
	maxNVLinks = 100
)

// Topology scores how well the GPUs of a node are connected. It does not change, and is
// safe for concurrent use.
type Topology struct {
	// place is the row of a GPU in scores, by its NVML index.
	place  map[int]int
	size   int
	scores []int32
}

// NewTopology returns the topology of a node. Build it once for each snapshot.
func NewTopology(n *gpu.Node) *Topology {
	size := len(n.GPUs)
	t := &Topology{place: make(map[int]int, size), size: size, scores: make([]int32, size*size)}
	for i := range n.GPUs {
		t.place[n.GPUs[i].Index] = i
		for j := range i {
			// The score of two GPUs between which the driver reports no link.
			t.set(i, j, pciScore(gpu.PathUndetermined, &n.GPUs[i], &n.GPUs[j]))
		}
	}
	for _, l := range n.Links {
		a, okA := t.place[l.A]
		b, okB := t.place[l.B]
		if !okA || !okB || a == b {
			continue
		}
		links := min(max(l.NVLinks, 0)+max(l.NVSwitch, 0), maxNVLinks)
		t.set(a, b, pciScore(l.Path, &n.GPUs[a], &n.GPUs[b])+int32(links)*scoreNVLink) //nolint:gosec // at most maxNVLinks
	}
	return t
}

func (t *Topology) set(a, b int, score int32) {
	t.scores[a*t.size+b], t.scores[b*t.size+a] = score, score
}

// row returns the row of a GPU in scores, -1 if it has none.
func (t *Topology) row(index int) int {
	if t == nil {
		return -1
	}
	if i, ok := t.place[index]; ok {
		return i
	}
	return -1
}

// between returns how well the GPUs of two rows are connected: higher is better, and 0 is
// for unknown GPUs and for one and the same GPU.
func (t *Topology) between(a, b int) int32 {
	if a < 0 || b < 0 {
		return 0
	}
	return t.scores[a*t.size+b]
}

// pciScore returns the part of the score that depends on the PCI bus. If the driver does
// not report the path, the NUMA nodes decide.
func pciScore(p gpu.Path, a, b *gpu.GPU) int32 {
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
