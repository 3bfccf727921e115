package smi

import (
	"fmt"
	"strconv"
	"unsafe" // cgo passes structs as unsafe.Pointer
)

// nodeFields are the same for all GPUs.
func nodeFields() []field {
	return []field{
		{name: "timestamp", read: func(r *reader) string { return r.node.time.Format("2006/01/02 15:04:05.000") }},
		{name: "driver_version", read: func(r *reader) string { return r.node.driver }},
		{name: "count", read: func(r *reader) string { return strconv.Itoa(r.node.count) }},
	}
}

func identityFields() []field {
	return []field{
		{name: "index", read: func(r *reader) string { return strconv.Itoa(r.gpu.index) }},
		{name: "name", aliases: []string{"gpu_name"}, read: func(r *reader) string { return r.gpu.name }},
		{name: "uuid", aliases: []string{"gpu_uuid"}, read: func(r *reader) string { return r.gpu.uuid }},
		textOf("serial", "nvmlDeviceGetSerial", "gpu_serial"),
		textOf("vbios_version", "nvmlDeviceGetVbiosVersion"),
		textOf("board_part_number", "nvmlDeviceGetBoardPartNumber"),
		textOf("inforom.img", "nvmlDeviceGetInforomImageVersion", "inforom.image"),
		inforom("inforom.oem", 0), inforom("inforom.ecc", 1), inforom("inforom.pwr", 2, "inforom.power"), // nvmlInforomObject_t
		number("minor_number", "", "nvmlDeviceGetMinorNumber"),
		words("product_brand", "nvmlDeviceGetBrand", brands()...),
		words("architecture", "nvmlDeviceGetArchitecture", architectures()...),
		{name: "compute_cap", read: computeCapability},
		words("persistence_mode", "nvmlDeviceGetPersistenceMode", switchWords()...),
		words("compute_mode", "nvmlDeviceGetComputeMode", "Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"),
		words("display_mode", "nvmlDeviceGetDisplayMode", switchWords()...),
		words("display_active", "nvmlDeviceGetDisplayActive", switchWords()...),
		{name: "mig.mode.current", read: func(r *reader) string { return pair(r, "nvmlDeviceGetMigMode", 0) }},
		{name: "mig.mode.pending", read: func(r *reader) string { return pair(r, "nvmlDeviceGetMigMode", 1) }},
		{name: "fabric.state", read: func(r *reader) string {
			return nameOf(optional[uint32]{uint32(r.fabric().value.state), r.fabric().known}, "", "Not Started", "In Progress", "Completed")
		}},
		{name: "fabric.status", read: fabricStatus},
	}
}

func brands() []string {
	return []string{"Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan", "NVIDIA Virtual Applications", "NVIDIA Virtual PC", "NVIDIA Virtual Compute Server", "NVIDIA RTX Virtual Workstation", "NVIDIA Cloud Gaming", "NVIDIA RTX", "NVIDIA RTX", "NVIDIA"}
}

func architectures() []string {
	return []string{"", "", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell"}
}

func inforom(name string, object uint32, aliases ...string) field {
	return field{name: name, aliases: aliases, read: func(r *reader) string {
		text, err := r.lib.textAt(r.handle, "nvmlDeviceGetInforomVersion", object)
		return optionalOf(r, text, err).format("%s")
	}}
}

func computeCapability(r *reader) string {
	var major, minor int32
	err := r.lib.deviceValues(r.handle, "nvmlDeviceGetCudaComputeCapability", unsafe.Pointer(&major), unsafe.Pointer(&minor))
	return optionalOf(r, fmt.Sprintf("%d.%d", major, minor), err).format("%s")
}

// pair returns the current (0) or the pending (1) mode.
func pair(r *reader, symbol string, which int) string {
	var modes [2]uint32
	err := r.lib.deviceValues(r.handle, symbol, unsafe.Pointer(&modes[0]), unsafe.Pointer(&modes[1]))
	return nameOf(optionalOf(r, modes[which], err), switchWords()...)
}

// fabric is nvmlGpuFabricInfo_t.
type fabric struct {
	_      [16]byte // the cluster
	status uint32
	_      uint32 // the clique
	state  uint8
	_      [3]byte
}

func (r *reader) fabric() optional[fabric] {
	f := get[fabric](r, "nvmlDeviceGetGpuFabricInfo")
	f.known = f.known && f.value.state != 0
	return f
}

func fabricStatus(r *reader) string {
	const completed = 3
	f := r.fabric()
	switch {
	case !f.known || f.value.state != completed:
		return unknown
	case f.value.status == 0:
		return "Success"
	default:
		return fmt.Sprint("Error ", f.value.status)
	}
}

func busFields() []field {
	const id = "nvmlDeviceGetPciInfo_v3"
	of := func(name, verb string, value func(pciInfo) uint32) field {
		return field{name: name, read: func(r *reader) string {
			p := get[pciInfo](r, id)
			return optional[uint32]{value(p.value), p.known}.format(verb)
		}}
	}
	return []field{
		{name: "pci.bus_id", aliases: []string{"gpu_bus_id"}, read: func(r *reader) string { return device{pci: get[pciInfo](r, id)}.busID() }},
		of("pci.domain", "0x%04X", func(p pciInfo) uint32 { return p.domain }), of("pci.bus", "0x%02X", func(p pciInfo) uint32 { return p.bus }),
		of("pci.device", "0x%02X", func(p pciInfo) uint32 { return p.device }),
		of("pci.device_id", "0x%08X", func(p pciInfo) uint32 { return p.pciDeviceID }),
		of("pci.sub_device_id", "0x%08X", func(p pciInfo) uint32 { return p.subsystem }),
		number("pcie.link.gen.current", "", "nvmlDeviceGetCurrPcieLinkGeneration", "pcie.link.gen.gpucurrent"),
		number("pcie.link.gen.max", "", "nvmlDeviceGetMaxPcieLinkGeneration", "pcie.link.gen.gpumax"),
		number("pcie.link.width.current", "", "nvmlDeviceGetCurrPcieLinkWidth"), number("pcie.link.width.max", "", "nvmlDeviceGetMaxPcieLinkWidth"),
	}
}
