package state

import (
	"fmt"
	"strings"
)

// Model is a GPU product that the simulator supports.
type Model struct {
	// ID is the name in gpu-sim: "h100-80".
	ID string
	// Name is the product name that NVML reports.
	Name string
	// Brand and Architecture are values of nvmlBrandType_t and
	// nvmlDeviceArchitecture_t.
	Brand, Architecture int
	ComputeCapability   Version
	// MemoryMiB is the total memory, and ReservedMiB the memory that the driver reserves.
	MemoryMiB, ReservedMiB uint64
	// PCIID and SubsystemID have the device in the high 16 bits and the vendor in the low 16 bits.
	PCIID, SubsystemID uint32
	BoardPart, VBIOS   string
	// SMs is the number of multiprocessors. CoresPerSM is the number of cores of each.
	SMs, CoresPerSM int
	// MIG is set if the product supports MIG.
	MIG bool
	// IdlePower, PowerLimit, PowerMin and PowerMax are in watts.
	IdlePower, PowerLimit, PowerMin, PowerMax uint32
	// IdleClocks and MaxClocks are in MHz: graphics, SM, memory, video.
	IdleClocks, MaxClocks [4]uint32
	PCIeGen               int
	NVLink                *NVLink
	// Limits has the temperature limits.
	Limits Limits
	// Engines has the engines of the board. Copy is not set.
	Engines Engines
	// Inforom has the versions of the image and of the objects OEM and ECC.
	Inforom [3]string
	// Places has the PCI addresses of the first eight slots. The next eight slots have the same
	// addresses in PCI domain 1.
	Places [8]Place
	// Verified says which values were compared with hardware.
	Verified string
}

// Limits has temperatures in °C, as NVML_TEMPERATURE_THRESHOLD_….
type Limits struct {
	Shutdown, Slowdown, GPU uint32
	// Memory is 0 for a board without a memory temperature sensor.
	Memory uint32
}

// NVLink describes the links between the GPUs of a baseboard and its NVSwitches.
type NVLink struct {
	// Version is a value of the NVML_NVLINK_VERSION constants.
	Version int
	// Links is the number of links of one GPU. They are spread evenly over the switches.
	Links int
	// Fabric is set if the GPUs register with a fabric manager and report the state of the fabric
	// (Hopper and later).
	Fabric bool
	// SwitchPCIID has the form of Model.PCIID. SwitchBuses has the buses of the switches.
	SwitchPCIID uint32
	SwitchBuses []uint32
}

// Place is a place in the PCI tree. Two GPUs with the same Bridge are below one host bridge. Two
// GPUs with the same Upper, if it is not 0, are below one upper switch. Lower works like Upper.
type Place struct {
	Bus                  uint32
	NUMANode             int
	Bridge, Upper, Lower uint32
}

const unverified = "not compared with hardware: names, memory and PCI ids as published, clocks, power, firmware and topology typical"

// Models returns the products that the simulator supports.
func Models() []Model { return append(ampereModels(), laterModels()...) }

func ampereModels() []Model {
	return []Model{
		{
			ID: "a100-40", Name: "NVIDIA A100-SXM4-40GB",
			Brand: brandNVIDIA, Architecture: archAmpere, ComputeCapability: Version{8, 0},
			MemoryMiB: 40960, ReservedMiB: 425, PCIID: 0x20b010de, SubsystemID: 0x134f10de,
			BoardPart: "692-2G506-0200-002", VBIOS: "92.00.45.00.03", SMs: 108, CoresPerSM: 64, MIG: true,
			IdlePower: 55, PowerLimit: 400, PowerMin: 100, PowerMax: 400,
			IdleClocks: [4]uint32{210, 210, 1215, 585}, MaxClocks: [4]uint32{1410, 1410, 1215, 1290}, PCIeGen: 4,
			NVLink: hgxA100(), Places: placesA100(), Verified: unverified,
			Limits: Limits{92, 89, 85, 95}, Engines: Engines{Encoder: 0, Decoder: 5, JPEG: 1, OFA: 1}, Inforom: [3]string{"G506.0200.00.04", "2.0", "6.16"},
		},
		{
			ID: "a100-80", Name: "NVIDIA A100-SXM4-80GB",
			Brand: brandNVIDIA, Architecture: archAmpere, ComputeCapability: Version{8, 0},
			MemoryMiB: 81920, ReservedMiB: 869, PCIID: 0x20b210de, SubsystemID: 0x147f10de,
			BoardPart: "692-2G506-0212-002", VBIOS: "92.00.45.00.05", SMs: 108, CoresPerSM: 64, MIG: true,
			IdlePower: 60, PowerLimit: 400, PowerMin: 100, PowerMax: 400,
			IdleClocks: [4]uint32{210, 210, 1593, 585}, MaxClocks: [4]uint32{1410, 1410, 1593, 1290}, PCIeGen: 4,
			NVLink: hgxA100(), Places: placesA100(), Verified: unverified,
			Limits: Limits{92, 89, 85, 95}, Engines: Engines{Encoder: 0, Decoder: 5, JPEG: 1, OFA: 1}, Inforom: [3]string{"G506.0212.00.01", "2.0", "6.16"},
		},
		{
			ID: "a30", Name: "NVIDIA A30",
			Brand: brandNVIDIA, Architecture: archAmpere, ComputeCapability: Version{8, 0},
			MemoryMiB: 24576, ReservedMiB: 416, PCIID: 0x20b710de, SubsystemID: 0x153210de,
			BoardPart: "900-21001-0040-000", VBIOS: "92.00.66.00.09", SMs: 56, CoresPerSM: 64, MIG: true,
			IdlePower: 28, PowerLimit: 165, PowerMin: 100, PowerMax: 165,
			IdleClocks: [4]uint32{210, 210, 1215, 645}, MaxClocks: [4]uint32{1440, 1440, 1215, 1305}, PCIeGen: 4,
			Places: placesL4(), Verified: unverified,
			Limits: Limits{96, 93, 89, 95}, Engines: Engines{Encoder: 0, Decoder: 4, JPEG: 1, OFA: 1}, Inforom: [3]string{"1001.0205.00.03", "2.0", "6.16"},
		},
	}
}

func laterModels() []Model {
	return []Model{
		{
			ID: "h100-80", Name: "NVIDIA H100 80GB HBM3",
			Brand: brandNVIDIA, Architecture: archHopper, ComputeCapability: Version{9, 0},
			MemoryMiB: 81559, ReservedMiB: 551, PCIID: 0x233010de, SubsystemID: 0x16c110de,
			BoardPart: "692-2G520-0200-000", VBIOS: "96.00.61.00.01", SMs: 132, CoresPerSM: 128, MIG: true,
			IdlePower: 70, PowerLimit: 700, PowerMin: 200, PowerMax: 700,
			IdleClocks: [4]uint32{345, 345, 2619, 765}, MaxClocks: [4]uint32{1980, 1980, 2619, 1545}, PCIeGen: 5,
			NVLink: hgxH100(), Places: placesH100(), Verified: unverified,
			Limits: Limits{95, 89, 87, 95}, Engines: Engines{Encoder: 0, Decoder: 7, JPEG: 7, OFA: 1}, Inforom: [3]string{"G520.0200.00.05", "2.1", "7.16"},
		},
		{
			ID: "h200", Name: "NVIDIA H200",
			Brand: brandNVIDIA, Architecture: archHopper, ComputeCapability: Version{9, 0},
			MemoryMiB: 143771, ReservedMiB: 604, PCIID: 0x233510de, SubsystemID: 0x18be10de,
			BoardPart: "692-2G520-0280-000", VBIOS: "96.00.99.00.01", SMs: 132, CoresPerSM: 128, MIG: true,
			IdlePower: 75, PowerLimit: 700, PowerMin: 200, PowerMax: 700,
			IdleClocks: [4]uint32{345, 345, 3201, 765}, MaxClocks: [4]uint32{1980, 1980, 3201, 1545}, PCIeGen: 5,
			NVLink: hgxH100(), Places: placesH100(), Verified: unverified,
			Limits: Limits{95, 89, 87, 95}, Engines: Engines{Encoder: 0, Decoder: 7, JPEG: 7, OFA: 1}, Inforom: [3]string{"G520.0280.00.07", "2.1", "7.16"},
		},
		{
			ID: "b200", Name: "NVIDIA B200",
			Brand: brandNVIDIA, Architecture: archBlackwell, ComputeCapability: Version{10, 0},
			MemoryMiB: 183359, ReservedMiB: 712, PCIID: 0x290110de, SubsystemID: 0x199910de,
			BoardPart: "692-2G525-0200-000", VBIOS: "97.00.82.00.01", SMs: 148, CoresPerSM: 128, MIG: true,
			IdlePower: 140, PowerLimit: 1000, PowerMin: 200, PowerMax: 1000,
			IdleClocks: [4]uint32{120, 120, 3996, 660}, MaxClocks: [4]uint32{1965, 1965, 3996, 1965}, PCIeGen: 5,
			NVLink: hgxB200(), Places: placesH100(), Verified: unverified,
			Limits: Limits{95, 89, 87, 95}, Engines: Engines{Encoder: 0, Decoder: 7, JPEG: 7, OFA: 1}, Inforom: [3]string{"G525.0225.00.04", "2.1", "7.16"},
		},
		{
			ID: "l4", Name: "NVIDIA L4",
			Brand: brandNVIDIA, Architecture: archAda, ComputeCapability: Version{8, 9},
			MemoryMiB: 23034, ReservedMiB: 431, PCIID: 0x27b810de, SubsystemID: 0x16ca10de,
			BoardPart: "900-2G193-0000-000", VBIOS: "95.04.29.00.06", SMs: 58, CoresPerSM: 128,
			IdlePower: 16, PowerLimit: 72, PowerMin: 40, PowerMax: 72,
			IdleClocks: [4]uint32{210, 210, 405, 1185}, MaxClocks: [4]uint32{2040, 2040, 6251, 1770}, PCIeGen: 4,
			Places: placesL4(), Verified: unverified,
			Limits: Limits{93, 90, 88, 0}, Engines: Engines{Encoder: 2, Decoder: 4, JPEG: 4, OFA: 1}, Inforom: [3]string{"G193.0200.00.01", "2.1", "6.16"},
		},
	}
}

// LookupModel returns the model with a name. The error lists the names.
func LookupModel(id string) (Model, error) {
	var ids []string
	for _, m := range Models() {
		if m.ID == id {
			return m, nil
		}
		ids = append(ids, m.ID)
	}
	return Model{}, fmt.Errorf("model %q is unknown: want one of %s", id, strings.Join(ids, ", "))
}

// Values of nvmlBrandType_t and nvmlDeviceArchitecture_t.
const (
	brandNVIDIA   = 14
	archAmpere    = 7
	archAda       = 8
	archHopper    = 9
	archBlackwell = 10
)

// hgxA100 returns the HGX A100 baseboard: six switches, two links to each.
func hgxA100() *NVLink {
	return &NVLink{
		Version: 4, Links: 12, SwitchPCIID: 0x1af110de,
		SwitchBuses: []uint32{0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9},
	}
}

// hgxH100 returns the HGX H100 baseboard: four switches, four or five links to each.
func hgxH100() *NVLink {
	return &NVLink{
		Version: 6, Links: 18, Fabric: true, SwitchPCIID: 0x22a310de,
		SwitchBuses: []uint32{0x05, 0x06, 0x07, 0x08},
	}
}

// hgxB200 returns the HGX B200 baseboard. The links lead to two switches, as published. The values
// that NVML reports about the switches are copied from HGX H100.
func hgxB200() *NVLink {
	return &NVLink{
		Version: 7, Links: 18, Fabric: true, SwitchPCIID: 0x22a310de,
		SwitchBuses: []uint32{0x05, 0x06},
	}
}

// placesA100 follows DGX A100: each pair of GPUs is below one upper switch and on a separate NUMA
// node.
func placesA100() [8]Place {
	return [8]Place{
		{0x07, 3, 1, 1, 1},
		{0x0f, 3, 1, 1, 2},
		{0x47, 1, 2, 2, 3},
		{0x4e, 1, 2, 2, 4},
		{0x87, 7, 3, 3, 5},
		{0x90, 7, 3, 3, 6},
		{0xb7, 5, 4, 4, 7},
		{0xbd, 5, 4, 4, 8},
	}
}

// placesH100 follows DGX H100: each GPU has a separate host bridge, and four GPUs share a NUMA
// node.
func placesH100() [8]Place {
	return [8]Place{
		{0x1b, 0, 1, 1, 1},
		{0x43, 0, 2, 2, 2},
		{0x52, 0, 3, 3, 3},
		{0x61, 0, 4, 4, 4},
		{0x9d, 1, 5, 5, 5},
		{0xc3, 1, 6, 6, 6},
		{0xd1, 1, 7, 7, 7},
		{0xdf, 1, 8, 8, 8},
	}
}

// placesL4 returns the places of a server with a pair of GPUs on each PCIe switch, and two switches
// below each host bridge.
func placesL4() [8]Place {
	return [8]Place{
		{0x17, 0, 1, 1, 1},
		{0x18, 0, 1, 1, 1},
		{0x2a, 0, 1, 2, 2},
		{0x2b, 0, 1, 2, 2},
		{0x98, 1, 2, 3, 3},
		{0x99, 1, 2, 3, 3},
		{0xac, 1, 2, 4, 4},
		{0xad, 1, 2, 4, 4},
	}
}
