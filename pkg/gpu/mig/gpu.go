package mig

import (
	"fmt"
	"maps"

	"outrigger.dev/pkg/gpu"
)

// GPU holds the properties of one GPU that matter for a change of its MIG layout.
type GPU struct {
	// Index, Shifted and Earlier are the same as in gpu.GPU.
	Index   int          `json:"index"`
	Shifted bool         `json:"shifted,omitempty"`
	Earlier *gpu.Earlier `json:"earlier,omitempty"`
	UUID    gpu.UUID     `json:"uuid"`
	// Name is the name of the product.
	Name        string  `json:"name"`
	PCI         gpu.PCI `json:"pci"`
	MemoryBytes uint64  `json:"memoryBytes"`
	// Capable is set if the GPU has a MIG mode.
	Capable bool `json:"capable"`
	// NeedsReset is set if a change of the mode takes effect only after a reset of the GPU.
	NeedsReset bool  `json:"needsReset"`
	Board      Board `json:"board"`
	State
	// Unlisted holds GPU instances that are not in Layout, because NVML does not list their
	// profiles. They must not be destroyed, because they cannot be created again.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
	// Fault is set if the GPU cannot be read. Then only Index, and the values that were read before
	// the failed call, are set.
	Fault *gpu.Fault `json:"fault,omitempty"`
}

// Selector returns the name of the GPU for nvidia-smi, as gpu.GPU.Selector does.
func (g GPU) Selector() string {
	of := gpu.GPU{Index: g.Index, UUID: g.UUID, Shifted: g.Shifted}
	return of.Selector()
}

// State is the MIG mode and the layout of a GPU.
type State struct {
	Enabled bool `json:"enabled"`
	// Pending is the mode after the next reset of the GPU.
	Pending bool   `json:"pending"`
	Layout  Layout `json:"layout"`
}

// Equal reports whether both have the same modes and the same instances at the same placements.
func (s State) Equal(o State) bool {
	return s.Enabled == o.Enabled && s.Pending == o.Pending && s.Layout.Equal(o.Layout)
}

// Desired returns the desired state that the state satisfies.
func (s State) Desired() Desired { return Desired{Enabled: s.Enabled, Devices: s.Layout.Devices()} }

// Desired is the desired state of one GPU in a config.
type Desired struct {
	Enabled bool `json:"enabled"`
	// Devices is the desired number of MIG devices of each profile. It is empty if the mode is to
	// be off, and may be empty if the mode is to be on.
	Devices map[gpu.Profile]int `json:"devices,omitempty"`
}

// Equal reports whether both are the same desired state.
func (d Desired) Equal(o Desired) bool {
	return d.Enabled == o.Enabled && maps.Equal(d.Devices, o.Devices)
}

// Unlisted is a GPU instance with a profile that NVML does not list, for example because the driver
// is newer than the library.
type Unlisted struct {
	// ID is NVML's number of the instance. ProfileID is the number of its profile.
	ID        uint32        `json:"id"`
	ProfileID uint32        `json:"profileID"`
	Placement gpu.Placement `json:"placement"`
	// ComputeSlices is the number of the GPU's compute slices that the instance takes, 0 if NVML
	// does not report it.
	ComputeSlices int `json:"computeSlices"`
}

// String returns the numbers of the instance and of its profile, and the placement.
func (u Unlisted) String() string {
	return fmt.Sprintf("GPU instance %d of the unlisted profile %d at %s", u.ID, u.ProfileID, place(u.Placement))
}
