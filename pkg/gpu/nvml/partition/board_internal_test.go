package partition

import (
	"testing"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// TestCountInstances: NVML's numbers for an A30 are wrong, in either direction.
func TestCountInstances(t *testing.T) {
	places := func(size int, starts ...int) []gpu.Placement {
		var out []gpu.Placement
		for _, s := range starts {
			out = append(out, gpu.Placement{Start: s, Size: size})
		}
		return out
	}
	profiles := []mig.Profile{
		{Name: gpu.Profile{GPUSlices: 1}, Max: 1, Placements: places(1, 0, 1, 2, 3)},
		{Name: gpu.Profile{GPUSlices: 1, Attribute: "+me"}, Max: 4, Placements: places(1, 0, 1, 2, 3)},
		{Name: gpu.Profile{GPUSlices: 2}, Max: 0, Placements: places(2, 0, 2)},
		{Name: gpu.Profile{GPUSlices: 4}, Max: 7, Placements: places(4, 0)},
	}
	countInstances(profiles)
	for i, want := range []int{4, 1, 2, 1} {
		if got := profiles[i].Max; got != want {
			t.Errorf("%d instances of %dg%s, want %d", got, profiles[i].Name.GPUSlices, profiles[i].Name.Attribute, want)
		}
	}
}
