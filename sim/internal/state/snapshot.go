package state

// #include "simstate.h"
import "C"

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Snapshot is the state of a node at one moment.
type Snapshot struct {
	Node   string `json:"node"`
	Driver Driver `json:"driver"`
	// Latency is added to every call of NVML.
	Latency time.Duration `json:"latencyNs"`
	// GPUs has the plugged GPUs, in the order of NVML's indices.
	GPUs []GPU `json:"gpus"`
	// Forced has the forced return codes by symbol.
	Forced map[string]int `json:"forced,omitempty"`
	// Fault is the call that fails, or nil.
	Fault *Fault `json:"fault,omitempty"`
	// Events is the number of events so far.
	Events uint64 `json:"events"`
}

// Driver is the simulated kernel driver.
type Driver struct {
	Loaded      bool    `json:"loaded"`
	Version     string  `json:"version"`
	NVMLVersion string  `json:"nvmlVersion"`
	CUDA        Version `json:"cuda"`
	// IMEXChannels is the number of IMEX channels with a device node.
	IMEXChannels int `json:"imexChannels,omitempty"`
}

// GPU is one plugged GPU.
type GPU struct {
	Slot Slot `json:"slot"`
	// Index is the index of NVML after the next nvmlInit.
	Index int    `json:"index"`
	Model string `json:"model"`
	Name  string `json:"name"`
	UUID  string `json:"uuid"`
	// Minor is the number in the name of the device node. It equals Slot.
	Minor             int     `json:"minor"`
	Serial            string  `json:"serial"`
	BoardPart         string  `json:"boardPart"`
	VBIOS             string  `json:"vbios"`
	BusID             string  `json:"busId"`
	PCIID             uint32  `json:"pciId"`
	SubsystemID       uint32  `json:"subsystemId"`
	NUMANode          int     `json:"numaNode"`
	ComputeCapability Version `json:"computeCapability"`
	MIGCapable        bool    `json:"migCapable"`
	MemoryBytes       uint64  `json:"memoryBytes"`
	MemoryUsed        uint64  `json:"memoryUsed"`
	NVLinks           int     `json:"nvLinks"`
	Temperature       uint32  `json:"temperature"`
	UtilizationGPU    uint32  `json:"utilizationGpu"`
	UtilizationMemory uint32  `json:"utilizationMemory"`
	PowerMilliwatts   uint32  `json:"powerMilliwatts"`
	// Values has the numeric fields that the product supports, by their names in SetField.
	Values map[string]uint64 `json:"values"`
	// ClockLimits has the form of SetField. Empty means that the clocks are not limited.
	ClockLimits string `json:"clockLimits,omitempty"`
	Persistence bool   `json:"persistence"`
	Lost        Lost   `json:"lost,omitempty"`
	// Recovery is the action that the GPU asks for. Empty means no action.
	Recovery Recovery `json:"recovery,omitempty"`
	// RemapPending means that rows of the memory wait for a reset to be remapped.
	RemapPending bool `json:"remapPending,omitempty"`
	// ComputeMode says which processes may use the GPU. Empty means all.
	ComputeMode ComputeMode `json:"computeMode,omitempty"`
	// Fabric has the form of SetFabric. It is empty if the product has no fabric.
	Fabric string `json:"fabric,omitempty"`
	// Resets is the number of resets since the GPU was plugged.
	Resets int `json:"resets"`
	// MIG is nil if the GPU does not support MIG.
	MIG       *MIG      `json:"mig,omitempty"`
	Processes []Process `json:"processes,omitempty"`
}

// Show returns the state of the node.
func (s *State) Show() Snapshot {
	var driver C.struct_sim_driver
	C.sim_read_driver(s.sim, &driver)
	state := C.sim_map(s.sim)
	snap := Snapshot{
		Node: getString(state.node[:]),
		Driver: Driver{
			Loaded:       driver.loaded != 0,
			Version:      getString(driver.version[:]),
			NVMLVersion:  getString(driver.nvml_version[:]),
			CUDA:         Version{Major: int(driver.cuda_version / 1000), Minor: int(driver.cuda_version % 1000 / 10)},
			IMEXChannels: int(driver.imex_channels),
		},
		Latency: s.latency(),
		Forced:  s.forced(),
		Fault:   s.fault(),
		Events:  uint64(C.sim_posted(s.sim)),
		GPUs:    []GPU{},
	}
	var gpus [MaxGPUs]C.struct_sim_gpu
	for i := range int(C.sim_enumerate(s.sim, &gpus[0])) {
		g := describe(&gpus[i], i)
		g.MIG = s.mig(&gpus[i])
		g.Values = s.values(Slot(gpus[i].minor))
		g.Processes = s.processes(C.struct_sim_ref{slot: gpus[i].minor, generation: gpus[i].generation})
		snap.GPUs = append(snap.GPUs, g)
	}
	return snap
}

func describe(gpu *C.struct_sim_gpu, index int) GPU {
	g := GPU{
		Slot:              Slot(gpu.minor),
		Index:             index,
		Model:             getString(gpu.model[:]),
		Name:              getString(gpu.name[:]),
		UUID:              getString(gpu.uuid[:]),
		Minor:             int(gpu.minor),
		Serial:            getString(gpu.serial[:]),
		BoardPart:         getString(gpu.board_part[:]),
		VBIOS:             getString(gpu.vbios[:]),
		BusID:             busID(gpu),
		PCIID:             uint32(gpu.pci_id),
		SubsystemID:       uint32(gpu.subsystem_id),
		NUMANode:          int(gpu.numa_node),
		ComputeCapability: Version{Major: int(gpu.cc_major), Minor: int(gpu.cc_minor)},
		MIGCapable:        gpu.mig_capable != 0,
		MemoryBytes:       uint64(gpu.memory_total),
		MemoryUsed:        uint64(gpu.memory_used),
		Temperature:       uint32(gpu.temperature),
		UtilizationGPU:    uint32(gpu.active[C.SIM_ACTIVE_GPU]),
		UtilizationMemory: uint32(gpu.active[C.SIM_ACTIVE_MEMORY]),
		PowerMilliwatts:   uint32(gpu.power),
		Persistence:       gpu.persistence != 0,
		Lost:              lostName(gpu.lost),
		Recovery:          recoveryName(gpu.recovery),
		RemapPending:      gpu.remap_pending != 0,
		ComputeMode:       computeModeName(gpu.compute_mode),
		Fabric:            fabricText(&gpu.fabric),
		ClockLimits:       limitText(gpu.limits),
		Resets:            int(gpu.resets),
	}
	for i := range gpu.links {
		g.NVLinks += int(gpu.link[i].up)
	}
	return g
}

// Find returns the slot of the GPU that ref names: an NVML index ("0"), a UUID, a PCI bus ID, or
// the name of its device node ("nvidia0"). The number of the device node is the slot.
func (s *State) Find(ref string) (Slot, error) {
	snap := s.Show()
	index, err := strconv.Atoi(ref)
	isIndex := err == nil
	for _, g := range snap.GPUs {
		if isIndex && g.Index == index || g.UUID == ref || sameBusID(g.BusID, ref) || "nvidia"+strconv.Itoa(g.Minor) == ref {
			return g.Slot, nil
		}
	}
	var have []string
	for _, g := range snap.GPUs {
		have = append(have, fmt.Sprintf("%d (%s, %s)", g.Index, g.UUID, g.BusID))
	}
	return 0, fmt.Errorf("GPU %q: %w; there are %d: %s", ref, ErrNoGPU, len(have), strings.Join(have, ", "))
}

// sameBusID compares bus IDs. NVML writes the domain with eight digits.
func sameBusID(a, b string) bool {
	return strings.EqualFold(strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0"))
}
