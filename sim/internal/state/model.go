package state

// #include "simstate.h"
import "C"

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"unsafe" // cgo passes C arrays as pointers

	"outrigger.dev/sim/internal/model"
)

// modelIn returns the place of a model in the table of a node, and the model as the table has it, or
// would have it: place is then the number of models. An empty ref means the node's own model.
func modelIn(table *C.struct_sim_models, ref string) (place int, m *C.struct_sim_model, err error) {
	if ref == "" && table.count > 0 {
		return 0, &table.model[0], nil
	}
	described, err := model.Find(cmp.Or(ref, model.Default))
	if err != nil {
		return 0, nil, err
	}
	if m, err = modelOf(described); err != nil {
		return 0, nil, err
	}
	for i := range int(table.count) {
		if bytes.Equal(bytesOf(&table.model[i]), bytesOf(m)) {
			return i, &table.model[i], nil
		}
	}
	if table.count == C.SIM_MAX_MODELS {
		return 0, nil, fmt.Errorf("model %s: the node has had %d models, which is the limit; delete the node and create it again", described.Name, C.SIM_MAX_MODELS)
	}
	return int(table.count), m, nil
}

// addModel puts a model into the table of a node, unless it is there. place is the result of modelIn.
func addModel(table *C.struct_sim_models, place int, m *C.struct_sim_model) {
	if place == int(table.count) {
		table.model[place] = *m
		table.count++
	}
}

func bytesOf(m *C.struct_sim_model) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
}

// modelOf converts a model to its form in the state.
func modelOf(m model.Model) (*C.struct_sim_model, error) {
	out := &C.struct_sim_model{}
	gpu := &out.gpu
	err := errors.Join(
		setString(gpu.model[:], m.Name), setString(gpu.name[:], m.Product),
		setString(gpu.board_part[:], m.Firmware.BoardPart), setString(gpu.vbios[:], m.Firmware.VBIOS),
		setString(gpu.inforom_image[:], m.Firmware.InforomImage), setString(gpu.inforom_oem[:], m.Firmware.InforomOEM), setString(gpu.inforom_ecc[:], m.Firmware.InforomECC),
	)
	gpu.brand, gpu.architecture = C.uint32_t(m.Brand), C.uint32_t(m.Architecture)
	gpu.cc_major, gpu.cc_minor = C.uint32_t(m.ComputeCapability[0]), C.uint32_t(m.ComputeCapability[1])
	gpu.pci_id, gpu.subsystem_id, gpu.pcie_gen = C.uint32_t(m.PCI.ID), C.uint32_t(m.PCI.Subsystem), C.uint32_t(m.PCI.Generation)
	gpu.memory_total, gpu.memory_reserved, gpu.bar1_total = C.uint64_t(m.Memory)*mib, C.uint64_t(m.Reserved)*mib, C.uint64_t(m.BAR1)*mib
	gpu.sms, gpu.cores_per_sm = C.uint32_t(m.SMs), C.uint32_t(m.CoresPerSM)
	gpu.decoders, gpu.encoders = C.uint32_t(m.Engines.Decoders), C.uint32_t(m.Engines.Encoders)
	gpu.jpegs, gpu.ofas = C.uint32_t(m.Engines.JPEGs), C.uint32_t(m.Engines.OFAs)
	gpu.power, gpu.power_limit = C.uint32_t(m.Power.Idle)*watt, C.uint32_t(m.Power.Max)*watt
	gpu.power_min, gpu.power_max = C.uint32_t(m.Power.Min)*watt, C.uint32_t(m.Power.Max)*watt
	gpu.clock, gpu.clock_max = clocksOf(m.Idle), clocksOf(m.Max)
	gpu.limit_gpu, gpu.limit_memory = C.uint32_t(m.Temperature.GPU), C.uint32_t(m.Temperature.Memory)
	gpu.limit_slowdown, gpu.limit_shutdown = C.uint32_t(m.Temperature.Slowdown), C.uint32_t(m.Temperature.Shutdown)
	fillServer(out, m.Server)
	return out, errors.Join(err, fillBoard(&out.mig, m))
}

const (
	mib  = 1 << 20
	watt = 1000
)

func clocksOf(c model.Clocks) [C.SIM_CLOCKS]C.uint32_t {
	return [C.SIM_CLOCKS]C.uint32_t{C.uint32_t(c.Graphics), C.uint32_t(c.SM), C.uint32_t(c.Memory), C.uint32_t(c.Video)}
}

func fillServer(out *C.struct_sim_model, s model.Server) {
	for i, p := range s.Places {
		out.place[i] = C.struct_sim_place{
			domain: C.uint32_t(p.Domain), bus: C.uint32_t(p.Bus), numa_node: C.int32_t(p.NUMANode),
			bridge: C.uint32_t(p.Bridge), upper: C.uint32_t(p.Upper), lower: C.uint32_t(p.Lower),
		}
	}
	if s.Links == nil {
		return
	}
	out.board = C.struct_sim_baseboard{
		version: C.uint32_t(s.Links.Version), links: C.uint32_t(s.Links.Count), fabric: flag(s.Links.Fabric), common: flag(s.Links.Common),
		switch_pci_id: C.uint32_t(s.Links.SwitchID), switches: C.uint32_t(len(s.Links.Buses)),
	}
	for i, bus := range s.Links.Buses {
		out.board.switch_bus[i] = C.uint32_t(bus)
	}
}

func fillBoard(board *C.struct_sim_board, m model.Model) error {
	if m.MIG == nil {
		return nil
	}
	board.compute_slices, board.memory_slices = C.uint32_t(m.MIG.ComputeSlices), C.uint32_t(m.MIG.MemorySlices)
	board.slice_sms = C.uint32_t(m.MIG.SliceSMs)
	board.mode_needs_reset, board.from_below = flag(m.MIG.ModeNeedsReset), flag(m.MIG.LowestPlaceFirst)
	err := setString(board.source[:], m.Source("mig"))
	for i, p := range m.MIG.Profiles {
		row := &board.profile[i]
		*row = C.struct_sim_gi_profile{
			profile: C.uint32_t(p.Number), id: C.uint32_t(p.ID), slices: C.uint32_t(p.Slices), size: C.uint32_t(p.Size),
			max: C.uint32_t(p.Max), memory_mib: C.uint32_t(p.MemoryMiB), sms: C.uint32_t(p.SMs), copy: C.uint32_t(p.Copies),
			decoder: C.uint32_t(p.Engines.Decoders), encoder: C.uint32_t(p.Engines.Encoders),
			jpeg: C.uint32_t(p.Engines.JPEGs), ofa: C.uint32_t(p.Engines.OFAs), verified: flag(p.Verified),
		}
		for _, start := range p.Starts {
			row.starts |= 1 << start
		}
		err = errors.Join(err, setString(row.name[:], p.Name), setString(row.source[:], m.Source("mig."+p.Name)))
	}
	return err
}

func flag(on bool) C.uint32_t {
	if on {
		return 1
	}
	return 0
}
