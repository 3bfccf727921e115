package state

// #include "simstate.h"
import "C"

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// fillGPU sets all values of a new GPU.
func fillGPU(gpu *C.struct_sim_gpu, spec GPUSpec, slot Slot, node string, generation uint64) error {
	model, err := LookupModel(spec.Model)
	if err != nil {
		return err
	}
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, generation))
	uuid := spec.UUID
	if uuid == "" {
		uuid = formatUUID(id)
	}
	*gpu = C.struct_sim_gpu{}
	gpu.generation = C.uint64_t(generation)
	err = errors.Join(
		setString(gpu.model[:], model.ID),
		setString(gpu.name[:], model.Name),
		setString(gpu.uuid[:], uuid),
		setString(gpu.serial[:], fmt.Sprintf("1%012d", binary.BigEndian.Uint64(id[16:])%1e12)),
		setString(gpu.board_part[:], model.BoardPart),
		setString(gpu.vbios[:], model.VBIOS),
		setString(gpu.inforom_image[:], model.Inforom[0]),
		setString(gpu.inforom_oem[:], model.Inforom[1]),
		setString(gpu.inforom_ecc[:], model.Inforom[2]),
	)
	if err != nil {
		return err
	}
	fillProduct(gpu, model)
	fillTelemetry(gpu, model)
	fillPlace(gpu, model, slot)
	fillNVLinks(gpu, model.NVLink)
	return nil
}

func fillProduct(gpu *C.struct_sim_gpu, m Model) {
	const mib, milliwatts = 1 << 20, 1000
	gpu.brand = C.uint32_t(m.Brand)
	gpu.architecture = C.uint32_t(m.Architecture)
	gpu.cc_major, gpu.cc_minor = C.uint32_t(m.ComputeCapability.Major), C.uint32_t(m.ComputeCapability.Minor)
	gpu.pci_id, gpu.subsystem_id = C.uint32_t(m.PCIID), C.uint32_t(m.SubsystemID)
	gpu.sms, gpu.cores_per_sm = C.uint32_t(m.SMs), C.uint32_t(m.CoresPerSM)
	if m.MIG {
		gpu.mig_capable = 1
	}
	gpu.memory_total, gpu.memory_reserved = C.uint64_t(m.MemoryMiB*mib), C.uint64_t(m.ReservedMiB*mib)
	gpu.bar1_used = mib
	for gpu.bar1_total = mib; gpu.bar1_total < gpu.memory_total; gpu.bar1_total *= 2 {
	}
	gpu.encoders, gpu.decoders = C.uint32_t(m.Engines.Encoder), C.uint32_t(m.Engines.Decoder)
	gpu.jpegs, gpu.ofas = C.uint32_t(m.Engines.JPEG), C.uint32_t(m.Engines.OFA)
	gpu.power, gpu.power_limit = C.uint32_t(m.IdlePower*milliwatts), C.uint32_t(m.PowerLimit*milliwatts)
	gpu.power_min, gpu.power_max = C.uint32_t(m.PowerMin*milliwatts), C.uint32_t(m.PowerMax*milliwatts)
	for i := range m.IdleClocks {
		gpu.clock[i], gpu.clock_max[i] = C.uint32_t(m.IdleClocks[i]), C.uint32_t(m.MaxClocks[i])
	}
	gpu.pcie_gen, gpu.pcie_width = C.uint32_t(m.PCIeGen), 16
}

// fillTelemetry sets the values of an idle GPU with ECC.
func fillTelemetry(gpu *C.struct_sim_gpu, m Model) {
	gpu.temperature, gpu.memory_temperature = 30, C.SIM_NO_TEMPERATURE
	if m.Limits.Memory != 0 {
		gpu.memory_temperature = 35
	}
	gpu.limit_shutdown, gpu.limit_slowdown = C.uint32_t(m.Limits.Shutdown), C.uint32_t(m.Limits.Slowdown)
	gpu.limit_gpu, gpu.limit_memory = C.uint32_t(m.Limits.GPU), C.uint32_t(m.Limits.Memory)
	gpu.ecc, gpu.ecc_pending = 1, 1
}

func fillPlace(gpu *C.struct_sim_gpu, m Model, slot Slot) {
	place := m.Places[int(slot)%len(m.Places)]
	domain := uint32(int(slot) / len(m.Places))
	gpu.minor = C.uint32_t(slot)
	gpu.domain, gpu.bus = C.uint32_t(domain), C.uint32_t(place.Bus)
	gpu.board_id = C.uint32_t(domain<<16 | place.Bus<<8)
	gpu.numa_node = C.int32_t(place.NUMANode)
	for i, id := range [C.SIM_TREE]uint32{place.Bridge, place.Upper, place.Lower, place.Bus} {
		gpu.tree[i] = C.uint32_t(domain<<16 | id)
	}
}

func fillNVLinks(gpu *C.struct_sim_gpu, nv *NVLink) {
	const toSwitch = 2 // NVML_NVLINK_DEVICE_TYPE_SWITCH
	if nv == nil {
		return
	}
	gpu.nvlink_version, gpu.links = C.uint32_t(nv.Version), C.uint32_t(nv.Links)
	if nv.Fabric {
		gpu.fabric = C.struct_sim_fabric{present: 1, state: fabricCompleted}
	}
	for i := range nv.Links {
		gpu.link[i] = C.struct_sim_link{
			domain: gpu.domain,
			bus:    C.uint32_t(nv.SwitchBuses[i*len(nv.SwitchBuses)/nv.Links]),
			pci_id: C.uint32_t(nv.SwitchPCIID),
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
