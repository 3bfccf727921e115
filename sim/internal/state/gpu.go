package state

// #include "simstate.h"
import "C"

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// origin describes where a new GPU comes from.
type origin struct {
	// model is at the place modelAt in the models of the node.
	model   *C.struct_sim_model
	modelAt int
	// uuid may be empty.
	uuid string
	// node and generation seed the UUID and the serial number.
	node       string
	generation uint64
}

// fillGPU sets all values of a new GPU.
func fillGPU(gpu *C.struct_sim_gpu, from origin, slot Slot) error {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%d", from.node, from.generation))
	*gpu = from.model.gpu
	gpu.model_at = C.uint32_t(from.modelAt)
	gpu.generation = C.uint64_t(from.generation)
	err := errors.Join(
		setString(gpu.uuid[:], cmp.Or(from.uuid, formatUUID(id))),
		setString(gpu.serial[:], fmt.Sprintf("1%012d", binary.BigEndian.Uint64(id[16:])%1e12)),
	)
	if err != nil {
		return err
	}
	if from.model.mig.compute_slices > 0 {
		gpu.mig_capable = 1
	}
	fillIdle(gpu)
	fillPlace(gpu, from.model, slot)
	fillNVLinks(gpu, &from.model.board)
	return nil
}

// fillIdle sets the values that do not depend on the product: an idle GPU with ECC has them.
func fillIdle(gpu *C.struct_sim_gpu) {
	gpu.bar1_used = mib
	if gpu.bar1_total == 0 {
		for gpu.bar1_total = mib; gpu.bar1_total < gpu.memory_total; gpu.bar1_total *= 2 {
		}
	}
	gpu.pcie_width = 16
	gpu.temperature, gpu.memory_temperature = 30, C.SIM_NO_TEMPERATURE
	if gpu.limit_memory != 0 {
		gpu.memory_temperature = 35
	}
	gpu.ecc, gpu.ecc_pending = 1, 1
}

func fillPlace(gpu *C.struct_sim_gpu, m *C.struct_sim_model, slot Slot) {
	place := m.place[slot]
	gpu.minor = C.uint32_t(slot)
	gpu.domain, gpu.bus = place.domain, place.bus
	gpu.board_id = place.domain<<16 | place.bus<<8
	gpu.numa_node = place.numa_node
	for i, id := range [C.SIM_TREE]C.uint32_t{place.bridge, place.upper, place.lower, place.bus} {
		gpu.tree[i] = place.domain<<16 | id
	}
}

func fillNVLinks(gpu *C.struct_sim_gpu, board *C.struct_sim_baseboard) {
	const toSwitch = 2 // NVML_NVLINK_DEVICE_TYPE_SWITCH
	gpu.nvlink_version, gpu.links = board.version, board.links
	if board.fabric != 0 {
		gpu.fabric = C.struct_sim_fabric{present: 1, state: fabricCompleted}
	}
	domain := gpu.domain
	if board.common != 0 {
		domain = 0
	}
	for i := range board.links {
		gpu.link[i] = C.struct_sim_link{
			domain: domain,
			bus:    board.switch_bus[i*board.switches/board.links],
			pci_id: board.switch_pci_id,
			_type:  toSwitch,
			up:     1,
		}
	}
}

// formatUUID writes a UUID of version 4 in NVML's form.
func formatUUID(id [sha256.Size]byte) string {
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// checkPlace rejects a GPU whose PCI address or UUID another GPU has.
func checkPlace(others []C.struct_sim_gpu, gpu *C.struct_sim_gpu) error {
	for i := range others {
		o := &others[i]
		if o.generation == 0 {
			continue
		}
		if o.domain == gpu.domain && o.bus == gpu.bus && o.device == gpu.device {
			return fmt.Errorf("place %s in slot %d: bus %s is taken by the %s in slot %d; choose another slot or model",
				getString(gpu.model[:]), gpu.minor, busID(gpu), getString(o.model[:]), o.minor)
		}
		if getString(o.uuid[:]) == getString(gpu.uuid[:]) {
			return fmt.Errorf("place GPU in slot %d: UUID %s is taken by the GPU in slot %d", gpu.minor, getString(gpu.uuid[:]), o.minor)
		}
	}
	return nil
}

func busID(gpu *C.struct_sim_gpu) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", gpu.domain, gpu.bus, gpu.device)
}
