package gputest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
)

// Model is a product of which Node makes GPUs.
type Model string

// The models that Node knows.
const (
	A100     Model = "a100-40" // NVIDIA A100-SXM4-40GB, NVSwitch, MIG
	A10080   Model = "a100-80" // NVIDIA A100-SXM4-80GB, NVSwitch, MIG
	H100     Model = "h100-80" // NVIDIA H100 80GB HBM3, NVSwitch, MIG
	L4       Model = "l4"      // NVIDIA L4, PCI only, no MIG
	numaSize       = 4         // GPUs of one NUMA node
)

// Node returns a node with n working GPUs of model. GPUs 2i and 2i+1 share PCI
// switches, four GPUs share a NUMA node, and where the model has NVLink all
// GPUs hang on one NVSwitch fabric. It panics on an unknown model.
func Node(model Model, n int) *gpu.Node {
	proto, nvlinks := prototype(model)
	node := &gpu.Node{
		Driver: gpu.Driver{
			Version:     "580.95.05",
			NVMLVersion: "13.580.95.05",
			CUDA:        gpu.Version{Major: 13, Minor: 0},
		},
		GPUs: make([]gpu.GPU, 0, n),
	}
	for i := range n {
		g := proto
		g.Index, g.Minor = i, i
		g.UUID = gpu.UUID(fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i))
		g.PCI.BusID = fmt.Sprintf("0000:%02x:00.0", 0x07+8*i)
		g.NUMANode = i / numaSize
		if proto.MIG != nil {
			g.MIG = &gpu.MIG{}
		}
		node.GPUs = append(node.GPUs, g)
		for a := range i {
			node.Links = append(node.Links, gpu.Link{A: a, B: i, NVSwitch: nvlinks, Path: path(a, i)})
		}
	}
	sortLinks(node.Links)
	return node
}

func path(a, b int) gpu.Path {
	switch {
	case a/2 == b/2:
		return gpu.PathSwitches
	case a/numaSize == b/numaSize:
		return gpu.PathNUMANode
	default:
		return gpu.PathSystem
	}
}

// prototype returns a GPU without the fields that differ between GPUs of a
// model, and the number of its NVLinks.
func prototype(model Model) (gpu.GPU, int) {
	switch model {
	case A100:
		return gpu.GPU{
			Name: "NVIDIA A100-SXM4-40GB", Brand: "Nvidia", Architecture: "Ampere",
			PCI:         gpu.PCI{DeviceID: 0x20b010de, SubsystemID: 0x134f10de},
			MemoryBytes: 40960 << 20, ComputeCapability: gpu.Version{Major: 8}, MIG: &gpu.MIG{},
		}, 12
	case A10080:
		return gpu.GPU{
			Name: "NVIDIA A100-SXM4-80GB", Brand: "Nvidia", Architecture: "Ampere",
			PCI:         gpu.PCI{DeviceID: 0x20b210de, SubsystemID: 0x146310de},
			MemoryBytes: 81920 << 20, ComputeCapability: gpu.Version{Major: 8}, MIG: &gpu.MIG{},
		}, 12
	case H100:
		return gpu.GPU{
			Name: "NVIDIA H100 80GB HBM3", Brand: "Nvidia", Architecture: "Hopper",
			PCI:         gpu.PCI{DeviceID: 0x233010de, SubsystemID: 0x16c110de},
			MemoryBytes: 81559 << 20, ComputeCapability: gpu.Version{Major: 9}, MIG: &gpu.MIG{},
		}, 18
	case L4:
		return gpu.GPU{
			Name: "NVIDIA L4", Brand: "Nvidia", Architecture: "Ada Lovelace",
			PCI:         gpu.PCI{DeviceID: 0x27b810de, SubsystemID: 0x16ca10de},
			MemoryBytes: 23034 << 20, ComputeCapability: gpu.Version{Major: 8, Minor: 9},
		}, 0
	default:
		panic("gputest: unknown model " + string(model))
	}
}

// clone returns a deep copy by way of the JSON form, which holds all of a Node.
func clone(node *gpu.Node) *gpu.Node {
	data, err := json.Marshal(node)
	if err != nil {
		panic(fmt.Sprintf("gputest: encode node: %v", err))
	}
	out := &gpu.Node{}
	if err := json.Unmarshal(data, out); err != nil {
		panic(fmt.Sprintf("gputest: decode node: %v", err))
	}
	return out
}

func sortLinks(links []gpu.Link) {
	slices.SortFunc(links, func(x, y gpu.Link) int {
		return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
}
