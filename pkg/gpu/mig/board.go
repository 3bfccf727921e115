// Package mig has the values of GPUs in MIG mode: the possible divisions of a board, the layout of
// a GPU, and the steps from one layout to another. It does no I/O.
package mig

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
)

// Board describes the possible divisions of a GPU, as NVML reports them for the GPU, or as the
// table of known boards has them for a product.
type Board struct {
	// MemorySlices is the number of units for the placements of GPU instances: 8 on boards of 7
	// compute slices, 4 on boards of 4.
	MemorySlices int `json:"memorySlices"`
	// ComputeSlices is the number of compute slices that all GPU instances together can have.
	ComputeSlices int `json:"computeSlices"`
	// Profiles is ordered by Number.
	Profiles []Profile `json:"profiles"`
	// SharedEngines is set if the driver admits GPU instances that together have more media engines
	// than the largest instance. The engines are then no limit.
	SharedEngines bool `json:"sharedEngines,omitempty"`
}

// Profile is a kind of GPU instance: nvmlGpuInstanceProfileInfo_t, and the possible placements of
// an instance.
type Profile struct {
	// Name is the profile of a MIG device that has the whole instance. It is unique on a board.
	Name gpu.Profile `json:"name"`
	// Number is the number in NVML_GPU_INSTANCE_PROFILE_…. ID is the number that nvidia-smi shows
	// and nvmlDeviceCreateGpuInstance takes.
	Number int    `json:"number"`
	ID     uint32 `json:"id"`
	// Placements is ordered by Start. All have the same size.
	Placements []gpu.Placement `json:"placements"`
	// Max is the number of instances of the profile that the GPU can have.
	Max         int    `json:"max"`
	MemoryBytes uint64 `json:"memoryBytes"`
	// Engines counts the engines of the whole instance. ComputeInstanceSlices is 0.
	Engines gpu.Engines `json:"engines"`
	// Compute is ordered by Slices. It is not empty.
	Compute []ComputeProfile `json:"compute"`
}

// ComputeProfile is a kind of compute instance that a GPU instance can have:
// nvmlComputeInstanceProfileInfo_t.
type ComputeProfile struct {
	Slices int `json:"slices"`
	// Number is the number in NVML_COMPUTE_INSTANCE_PROFILE_…. ID is the number that
	// nvmlGpuInstanceCreateComputeInstance takes.
	Number int    `json:"number"`
	ID     uint32 `json:"id"`
	// Placements is in compute slices of the GPU instance, ordered by Start.
	Placements []gpu.Placement `json:"placements"`
	Max        int             `json:"max"`
}

// Profile returns the profile with this name. It ignores the compute slices of the name.
func (b Board) Profile(name gpu.Profile) (Profile, bool) {
	name.ComputeSlices = name.GPUSlices
	i := slices.IndexFunc(b.Profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return b.Profiles[i], true
}

// Beside returns the board without the parts that the GPU instances in list occupy.
func (b Board) Beside(list []Unlisted) Board {
	if len(list) == 0 {
		return b
	}
	b.Profiles = slices.Clone(b.Profiles)
	for _, u := range list {
		b.ComputeSlices -= u.ComputeSlices
		for i := range b.Profiles {
			p := &b.Profiles[i]
			p.Placements = slices.DeleteFunc(slices.Clone(p.Placements), u.Placement.Overlaps)
			p.Max = min(p.Max, len(p.Placements))
		}
	}
	return b
}

// Fits returns why the board cannot have the GPU instances of a sorted layout, or nil if it can.
func (b Board) Fits(l Layout) error {
	count := map[gpu.Profile]int{}
	compute := 0
	for n, i := range l {
		p, ok := b.Profile(i.Profile)
		if !ok || !slices.Contains(p.Placements, i.Placement) {
			return fmt.Errorf("a GPU instance %s cannot be at %s", i.Profile, place(i.Placement))
		}
		if n > 0 && i.Placement.Overlaps(l[n-1].Placement) {
			return fmt.Errorf("the GPU instances %s at %d and %s at %d overlap", l[n-1].Profile, l[n-1].Placement.Start, i.Profile, i.Placement.Start)
		}
		if count[i.Profile]++; count[i.Profile] > p.Max {
			return fmt.Errorf("the GPU can have at most %d of %s, not %d", p.Max, i.Profile, count[i.Profile])
		}
		compute += i.Profile.GPUSlices
	}
	if compute > b.ComputeSlices {
		return fmt.Errorf("its GPU instances have %d compute slices, and the GPU has %d", compute, b.ComputeSlices)
	}
	return nil
}

// Of returns the kind of compute instance with this number of slices.
func (p Profile) Of(computeSlices int) (ComputeProfile, bool) {
	i := slices.IndexFunc(p.Compute, func(c ComputeProfile) bool { return c.Slices == computeSlices })
	if i < 0 {
		return ComputeProfile{}, false
	}
	return p.Compute[i], true
}
