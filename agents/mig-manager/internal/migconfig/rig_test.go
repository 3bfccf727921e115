package migconfig_test

import (
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		assert.NilError(t, err)
		return v
	}
}

// number has the numbers of NVML_GPU_INSTANCE_PROFILE_… for slices and attribute; a second
// profile with one slice is that with double memory.
func number(name gpu.Profile, second bool) int {
	if second {
		return 9
	}
	return map[string]int{"1": 0, "2": 1, "3": 2, "4": 3, "7": 4, "1+me": 7, "2+me": 8}[fmt.Sprint(name.GPUSlices, name.Attribute)]
}

// board makes a board of profiles that are named in the order of nvidia-smi.
func board(t *testing.T, compute, memory int, names ...string) mig.Board {
	t.Helper()
	b := mig.Board{ComputeSlices: compute, MemorySlices: memory}
	for _, text := range names {
		name := must[gpu.Profile](t)(gpu.ParseProfile(text))
		second := slices.ContainsFunc(b.Profiles, func(p mig.Profile) bool {
			return p.Name.GPUSlices == 1 && name.GPUSlices == 1 && p.Name.Attribute == "" && name.Attribute == ""
		})
		size := map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 7: 8}[name.GPUSlices]
		if second {
			size = 2
		}
		p := mig.Profile{Name: name, Number: number(name, second)}
		for start := 0; start+size <= memory && (size > 1 || start < compute); start += size {
			p.Placements = append(p.Placements, gpu.Placement{Start: start, Size: size})
			if name.GPUSlices == 4 || name.GPUSlices == 2 && start+size == compute-1 {
				break
			}
		}
		if p.Max = len(p.Placements); name.Attribute != "" {
			p.Max = 1 // the media engines cannot be divided
		}
		for n, slices := range []int{1, 2, 3, 4, 7} {
			c := mig.ComputeProfile{Slices: slices, Number: n}
			for start := 0; start+slices <= name.GPUSlices; start += slices {
				c.Placements = append(c.Placements, gpu.Placement{Start: start, Size: slices})
			}
			if len(c.Placements) > 0 {
				p.Compute = append(p.Compute, c)
			}
		}
		b.Profiles = append(b.Profiles, p)
	}
	return b
}

// node has two A100, an A30, an L4 without a MIG mode, and a lost GPU.
func node(t *testing.T) []mig.GPU {
	a100 := board(t, 7, 8, "1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
	a30 := board(t, 4, 4, "1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb")
	return []mig.GPU{
		{Index: 0, UUID: "GPU-0", Name: "NVIDIA A100", PCI: gpu.PCI{DeviceID: 0x20b010de, SubsystemID: 0x144e10de}, Capable: true, NeedsReset: true, Board: a100},
		{Index: 1, UUID: "GPU-1", Name: "NVIDIA A100", PCI: gpu.PCI{DeviceID: 0x20b010de, SubsystemID: 0x144f10de}, Capable: true, NeedsReset: true, Board: a100},
		{Index: 2, UUID: "GPU-2", Name: "NVIDIA A30", PCI: gpu.PCI{DeviceID: 0x20b710de}, Capable: true, NeedsReset: true, Board: a30},
		{Index: 3, UUID: "GPU-3", Name: "NVIDIA L4", PCI: gpu.PCI{DeviceID: 0x27b810de}},
		{Index: 4, Fault: &gpu.Fault{Op: "nvmlDeviceGetHandleByIndex", Reason: "GPU is lost"}},
	}
}

// read reads the items of one entry.
func read(t *testing.T, items string) migconfig.Config {
	t.Helper()
	return must[migconfig.Config](t)(migconfig.Read("c.yaml", []byte("version: v1\nmig-configs:\n  x:\n"+items)))
}
