package mig

import (
	"fmt"
	"maps"

	"outrigger.dev/pkg/gpu"
)

// GPU is what a change of the MIG layout has to know of one GPU.
type GPU struct {
	// Index is NVML's index.
	Index int      `json:"index"`
	UUID  gpu.UUID `json:"uuid"`
	// Name is that of the product.
	Name        string  `json:"name"`
	PCI         gpu.PCI `json:"pci"`
	MemoryBytes uint64  `json:"memoryBytes"`
	// Capable is set if the GPU has a MIG mode.
	Capable bool `json:"capable"`
	// NeedsReset is set if a change of the mode takes effect only after a reset of the GPU.
	NeedsReset bool  `json:"needsReset"`
	Board      Board `json:"board"`
	State
	// Unlisted are GPU instances that are not in Layout, because NVML does not list their profiles.
	// Nobody can make them again, so that they stay.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
	// Fault is set if the GPU cannot be read. Then only Index, and what could be read
	// before, is set.
	Fault *gpu.Fault `json:"fault,omitempty"`
}

// State is the MIG mode and the layout of a GPU.
type State struct {
	Enabled bool `json:"enabled"`
	// Pending is the mode after the next reset of the GPU.
	Pending bool   `json:"pending"`
	Layout  Layout `json:"layout"`
}

// Equal reports whether both are the same modes, with the same instances at the same places.
func (s State) Equal(o State) bool {
	return s.Enabled == o.Enabled && s.Pending == o.Pending && s.Layout.Equal(o.Layout)
}

// Desired returns the config that the state is in line with.
func (s State) Desired() Desired { return Desired{Enabled: s.Enabled, Devices: s.Layout.Devices()} }

// Desired is what a config asks of one GPU.
type Desired struct {
	Enabled bool `json:"enabled"`
	// Devices is how many MIG devices of each profile it shall have. It is empty if the
	// mode shall be off, and may be empty if it shall be on.
	Devices map[gpu.Profile]int `json:"devices,omitempty"`
}

// Equal reports whether both ask for the same.
func (d Desired) Equal(o Desired) bool {
	return d.Enabled == o.Enabled && maps.Equal(d.Devices, o.Devices)
}

// Unlisted is a GPU instance of a profile that NVML does not list, as a driver may have one that is
// newer than its library.
type Unlisted struct {
	// ID is NVML's number of the instance, and ProfileID that of its profile.
	ID        uint32        `json:"id"`
	ProfileID uint32        `json:"profileID"`
	Placement gpu.Placement `json:"placement"`
	// ComputeSlices is what it takes of the GPU's, 0 if NVML does not tell.
	ComputeSlices int `json:"computeSlices"`
}

// String returns the numbers of the instance and of its profile, and where it is.
func (u Unlisted) String() string {
	return fmt.Sprintf("GPU instance %d of the unlisted profile %d at %s", u.ID, u.ProfileID, place(u.Placement))
}
