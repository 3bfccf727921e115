// Package model reads the data files of products: the values of an idle GPU, its place in a server,
// and its MIG profiles.
package model

// Model describes a product. A number that is 0 and a text that is empty are unknown or do not exist
// on the product. NVML then reports NOT_SUPPORTED, unless a method says otherwise.
type Model struct {
	// Name is the name in gpu-sim, such as "h100-80". Aliases are other names of the same product.
	Name    string
	Aliases []string
	// Product is the name that NVML reports.
	Product string
	// Brand and Architecture are numbers of nvmlBrandType_t and nvmlDeviceArchitecture_t.
	Brand, Architecture int
	ComputeCapability   [2]int
	Server              Server
	PCI                 PCI
	// Memory, Reserved and BAR1 are in MiB. If BAR1 is 0, it is the next power of two after Memory.
	Memory, Reserved, BAR1 int
	SMs, CoresPerSM        int
	Engines                Engines
	Power                  Power
	// Idle and Max have the clocks in MHz.
	Idle, Max   Clocks
	Temperature Temperature
	Firmware    Firmware
	// MIG is nil if the product cannot be divided.
	MIG *MIG
	// Sources has the source of each figure, by the path of its key.
	Sources map[string]string
}

// PCI has the PCI IDs, device << 16 | vendor, and the generation of PCIe.
type PCI struct{ ID, Subsystem, Generation int }

// Engines counts the media engines.
type Engines struct{ Decoders, Encoders, JPEGs, OFAs int }

// Power has the power of an idle GPU, and the lowest and the highest limit, in W. The default limit
// is Max.
type Power struct{ Idle, Min, Max int }

// Clocks has clocks in MHz.
type Clocks struct{ Graphics, SM, Memory, Video int }

// Temperature has limits in °C: at work, of a slowdown, of a shutdown, and of the memory. If Memory
// is 0, the memory has no sensor.
type Temperature struct{ GPU, Slowdown, Shutdown, Memory int }

// Firmware has versions of the board and its firmware.
type Firmware struct{ BoardPart, VBIOS, InforomImage, InforomOEM, InforomECC string }

// MIG describes how a product can be divided.
type MIG struct {
	ComputeSlices, MemorySlices int
	// SliceSMs is the number of SMs of one compute slice.
	SliceSMs int
	// ModeNeedsReset is set if a change of the mode waits for a reset of the GPU, and a reboot keeps
	// the mode. Otherwise, a change is immediate, and a reboot turns the mode off.
	ModeNeedsReset bool
	// LowestPlaceFirst is set if the driver chooses the lowest free place, and not the highest.
	LowestPlaceFirst bool
	Profiles         []Profile
}

// Profile is a kind of GPU instance.
type Profile struct {
	// Name is the name in nvidia-smi, such as "1g.5gb+me".
	Name string
	// Number is NVML_GPU_INSTANCE_PROFILE_…, and ID the number that nvidia-smi prints.
	Number, ID int
	// Slices counts compute slices, and Size memory slices. Starts has the possible first memory
	// slices. Max is the number of instances on an empty GPU.
	Slices, Size int
	Starts       []int
	Max          int
	MemoryMiB    int
	SMs, Copies  int
	Engines      Engines
	// Verified is set if instances of the profile were compared with hardware.
	Verified bool
}

// Source returns the source of the figure with this key: of the key itself, or of the section that
// contains it.
func (m Model) Source(key string) string {
	for {
		if s, ok := m.Sources[key]; ok {
			return s
		}
		section, ok := parent(key)
		if !ok {
			return ""
		}
		key = section
	}
}
