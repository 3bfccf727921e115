package reader

import (
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Every pair's level has to be that which NVML gives, however few are asked.
func TestTree(t *testing.T) {
	for name, c := range map[string]struct {
		// gpus by NUMA node, host bridge, root port, switch and board.
		gpus [][5]int
		// asked is how many pairs NVML is asked for.
		asked int
	}{
		"one GPU": {gpus: [][5]int{{0, 0, 0, 0, 0}}},
		"two sockets, a host bridge for each GPU": {
			gpus:  [][5]int{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}},
			asked: 16,
		},
		"two sockets, pairs behind switches": {
			gpus:  [][5]int{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 1}, {0, 1, 1, 1, 2}, {0, 1, 1, 1, 3}, {1, 2, 2, 2, 4}, {1, 2, 2, 2, 5}, {1, 3, 3, 3, 6}, {1, 3, 3, 3, 7}},
			asked: 12,
		},
		"the sockets by turns": {
			gpus:  [][5]int{{0, 0}, {1, 1}, {0, 2}, {1, 3}, {0, 4}, {1, 5}},
			asked: 9,
		},
		"all levels": {
			gpus:  [][5]int{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 1}, {0, 0, 0, 1, 2}, {0, 0, 1, 2, 3}, {0, 1, 2, 3, 4}, {1, 2, 3, 4, 5}},
			asked: 6,
		},
		"all alike": {gpus: [][5]int{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 2}, {0, 0, 0, 0, 3}}, asked: 6},
	} {
		t.Run(name, func(t *testing.T) {
			asked, pci := 0, ancestorLevels{}
			for a := range c.gpus {
				for b := a + 1; b < len(c.gpus); b++ {
					want := level(c.gpus[a], c.gpus[b])
					got, ok := pci.between(a, b)
					if !ok {
						asked++
						got = want
					}
					pci[[2]int{a, b}] = got
					if got != want {
						t.Errorf("GPUs %d and %d meet at level %d, want %d", a, b, got, want)
					}
				}
			}
			if asked != c.asked {
				t.Errorf("%d pairs were asked, want %d", asked, c.asked)
			}
		})
	}
}

// level is what NVML says of two GPUs.
func level(a, b [5]int) gonvml.GpuTopologyLevel {
	for i, l := range []gonvml.GpuTopologyLevel{
		gonvml.TOPOLOGY_SYSTEM, gonvml.TOPOLOGY_NODE, gonvml.TOPOLOGY_HOSTBRIDGE, gonvml.TOPOLOGY_MULTIPLE, gonvml.TOPOLOGY_SINGLE,
	} {
		if a[i] != b[i] {
			return l
		}
	}
	return gonvml.TOPOLOGY_INTERNAL
}
