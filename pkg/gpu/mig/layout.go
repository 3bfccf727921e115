package mig

import (
	"cmp"
	"fmt"
	"slices"

	"outrigger.dev/pkg/gpu"
)

// Layout is the division of a GPU: its GPU instances, ordered by the start of their placements.
type Layout []Instance

// Instance is a GPU instance that exists or is desired.
type Instance struct {
	// ID is NVML's number of an existing instance. Equal does not compare it.
	ID uint32 `json:"id"`
	// Profile is the name of the instance's profile on the board.
	Profile   gpu.Profile   `json:"profile"`
	Placement gpu.Placement `json:"placement"`
	// Compute is ordered by the start of the placements. It may be empty.
	Compute []Compute `json:"compute"`
}

// Compute is a compute instance: a MIG device.
type Compute struct {
	// ID is NVML's number of an existing instance. Equal does not compare it.
	ID     uint32 `json:"id"`
	Slices int    `json:"slices"`
	// Placement is in compute slices of the GPU instance.
	Placement gpu.Placement `json:"placement"`
}

// Device returns the profile of compute instance c of i as a MIG device.
func (i Instance) Device(c Compute) gpu.Profile {
	p := i.Profile
	p.ComputeSlices = c.Slices
	return p
}

// Sort orders the GPU instances and the compute instances by their placements.
func (l Layout) Sort() {
	slices.SortFunc(l, func(a, b Instance) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	for _, i := range l {
		slices.SortFunc(i.Compute, func(a, b Compute) int { return cmp.Compare(a.Placement.Start, b.Placement.Start) })
	}
}

// Equal reports whether both have the same instances at the same placements. NVML's numbers of the
// instances may differ.
func (l Layout) Equal(o Layout) bool { return slices.EqualFunc(l, o, Instance.Equal) }

// Same reports whether both are the same GPU instance. Their compute instances may differ.
func (i Instance) Same(o Instance) bool { return i.Profile == o.Profile && i.Placement == o.Placement }

// Equal reports whether both are the same GPU instance with the same compute instances.
func (i Instance) Equal(o Instance) bool {
	return i.Same(o) && slices.EqualFunc(i.Compute, o.Compute, Compute.Equal)
}

// Equal reports whether both are the same compute instance of a GPU instance.
func (c Compute) Equal(o Compute) bool { return c.Slices == o.Slices && c.Placement == o.Placement }

// Devices returns the number of MIG devices of each profile in the layout.
func (l Layout) Devices() map[gpu.Profile]int {
	count := map[gpu.Profile]int{}
	for _, i := range l {
		for _, c := range i.Compute {
			count[i.Device(c)]++
		}
	}
	return count
}

// Device returns the profile of the MIG device with these NVML numbers of its instances. If the
// compute instance is unknown, it returns the profile of the whole GPU instance. It returns "" if
// the GPU instance is unknown.
func (l Layout) Device(gpuInstance, computeInstance uint32) string {
	for _, i := range l {
		if i.ID != gpuInstance {
			continue
		}
		for _, c := range i.Compute {
			if c.ID == computeInstance {
				return i.Device(c).String()
			}
		}
		return i.Profile.String()
	}
	return ""
}

// Undivided reports whether a GPU instance has no compute instance and therefore cannot be used.
func (l Layout) Undivided() bool {
	return slices.ContainsFunc(l, func(i Instance) bool { return len(i.Compute) == 0 })
}

// Op is the operation of a Step.
type Op string

// The operations of a Step.
const (
	DestroyCompute  Op = "destroy compute instance"
	DestroyInstance Op = "destroy GPU instance"
	CreateInstance  Op = "create GPU instance"
	CreateCompute   Op = "create compute instance"
)

// Step is one change of a layout: one call of NVML.
type Step struct {
	Op Op `json:"op"`
	// Profile and Placement name the GPU instance.
	Profile   gpu.Profile   `json:"profile"`
	Placement gpu.Placement `json:"placement"`
	// Compute is the compute instance; it is zero for a step of a GPU instance.
	Compute Compute `json:"compute,omitzero"`
}

// String returns the step in one line, such as "create GPU instance 3g.40gb at 4:4".
func (s Step) String() string {
	switch s.Op {
	case DestroyCompute, CreateCompute:
		i := Instance{Profile: s.Profile}
		return fmt.Sprintf("%s %s at %s of %s at %s", s.Op, i.Device(s.Compute), place(s.Compute.Placement), s.Profile, place(s.Placement))
	default:
		return fmt.Sprintf("%s %s at %s", s.Op, s.Profile, place(s.Placement))
	}
}

// place returns a placement in the form of nvidia-smi: start:size.
func place(p gpu.Placement) string { return fmt.Sprintf("%d:%d", p.Start, p.Size) }
