package gputest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
)

// Model is a GPU product that Node knows.
type Model string

// The models that Node knows.
const (
	A100     Model = "a100-40" // NVIDIA A100-SXM4-40GB, NVSwitch, MIG
	A10080   Model = "a100-80" // NVIDIA A100-SXM4-80GB, NVSwitch, MIG
	A30      Model = "a30"     // NVIDIA A30, PCI only, MIG
	H100     Model = "h100-80" // NVIDIA H100 80GB HBM3, NVSwitch, MIG
	H200     Model = "h200"    // NVIDIA H200, NVSwitch, MIG
	B200     Model = "b200"    // NVIDIA B200, NVSwitch, MIG
	L4       Model = "l4"      // NVIDIA L4, PCI only, no MIG
	numaSize       = 4         // GPUs of one NUMA node
)

// Node returns a node with n working GPUs of model. GPUs 2i and 2i+1 share PCI switches, and four
// GPUs share a NUMA node. If the model has NVLink, all GPUs are connected to the NVSwitches of one
// board. GPUs from Hopper on have joined the board as their fabric. Node panics on an unknown
// model.
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
		if proto.Fabric != nil {
			g.Fabric = boardFabric()
		}
		node.GPUs = append(node.GPUs, g)
		for a := range i {
			node.Links = append(node.Links, gpu.Link{A: a, B: i, NVSwitch: nvlinks, Path: pathBetween(a, i)})
		}
	}
	sortLinks(node.Links)
	return node
}

// Divided returns a node with n GPUs of a model. The first GPUs are divided into devices of these
// profiles, as by Partition.
func Divided(model Model, n int, layouts ...[]string) *gpu.Node {
	out := Node(model, n)
	for i, profiles := range layouts {
		Partition(out, i, profiles...)
	}
	return out
}

// Mixed returns a node with one GPU of each model, in this order, without MIG devices and links.
func Mixed(models ...Model) *gpu.Node {
	out := Node(L4, len(models))
	out.Links = nil
	for i, model := range models {
		g := Node(model, 1).GPUs[0]
		was := out.GPUs[i]
		g.Index, g.Minor, g.UUID, g.PCI.BusID = was.Index, was.Minor, was.UUID, was.PCI.BusID
		out.GPUs[i] = g
	}
	return out
}

// Times returns a layout of n devices of a profile.
func Times(n int, profile string) []string { return slices.Repeat([]string{profile}, n) }

// boardFabric returns the fabric of a board without links to other nodes.
func boardFabric() *gpu.Fabric {
	return &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess}
}

func pathBetween(a, b int) gpu.Path {
	switch {
	case a/2 == b/2:
		return gpu.PathSwitches
	case a/numaSize == b/numaSize:
		return gpu.PathNUMANode
	default:
		return gpu.PathSystem
	}
}

// prototype returns a GPU without the fields that differ between GPUs of a model, and the number of
// its NVLinks.
func prototype(model Model) (gpu.GPU, int) {
	const ampere, hopper = "Ampere", "Hopper"
	for _, p := range []struct {
		model              Model
		name, architecture string
		device, subsystem  uint32
		mib                uint64
		cc                 gpu.Version
		nvlinks            int
		mig                bool
	}{
		{A30, "NVIDIA A30", ampere, 0x20b710de, 0x153210de, 24576, gpu.Version{Major: 8}, 0, true},
		{A100, "NVIDIA A100-SXM4-40GB", ampere, 0x20b010de, 0x134f10de, 40960, gpu.Version{Major: 8}, 12, true},
		{A10080, "NVIDIA A100-SXM4-80GB", ampere, 0x20b210de, 0x146310de, 81920, gpu.Version{Major: 8}, 12, true},
		{H100, "NVIDIA H100 80GB HBM3", hopper, 0x233010de, 0x16c110de, 81559, gpu.Version{Major: 9}, 18, true},
		{H200, "NVIDIA H200", hopper, 0x233510de, 0x18be10de, 143771, gpu.Version{Major: 9}, 18, true},
		{B200, "NVIDIA B200", "Blackwell", 0x290110de, 0x199910de, 183359, gpu.Version{Major: 10}, 18, true},
		{L4, "NVIDIA L4", "Ada Lovelace", 0x27b810de, 0x16ca10de, 23034, gpu.Version{Major: 8, Minor: 9}, 0, false},
	} {
		if p.model != model {
			continue
		}
		g := gpu.GPU{
			Name: p.name, Brand: "Nvidia", Architecture: p.architecture,
			PCI:         gpu.PCI{DeviceID: p.device, SubsystemID: p.subsystem},
			MemoryBytes: p.mib << 20, ComputeCapability: p.cc,
		}
		if p.mig {
			g.MIG = &gpu.MIG{}
		}
		if p.nvlinks > 0 && p.architecture != ampere {
			g.Fabric = boardFabric()
		}
		return g, p.nvlinks
	}
	panic("gputest: unknown model " + string(model))
}

// clone returns a deep copy. It uses the JSON form, which holds all fields of a Node.
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
