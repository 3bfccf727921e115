package nvml

import (
	"fmt"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// Device is a GPU, or one of its MIG devices. Its methods are calls of NVML, which nvml.h
// describes.
type Device struct{ handle[gonvml.Device] }

// Is reports whether d and other are the same device.
func (d Device) Is(other Device) bool { return d.Valid() && d.raw == other.raw }

// Valid reports whether d has a handle from NVML. The zero Device has none.
func (d Device) Valid() bool { return d.raw != nil }

// PCIInfo returns the location of the GPU on the PCI bus.
func (d Device) PCIInfo() (gonvml.PciInfo, error) {
	return get(d.handle, "nvmlDeviceGetPciInfo_v3", gonvml.Device.GetPciInfo)
}

// PCIBusID returns the PCI bus ID in the format of NVML, such as "00000000:17:00.0".
func (d Device) PCIBusID() (string, error) {
	info, err := d.PCIInfo()
	return cString(info.BusId[:]), err
}

// PCI returns a location on the PCI bus with the bus ID in the form of sysfs. NVML writes the
// domain with eight digits. The kernel uses as many as it needs, but at least four.
func PCI(info gonvml.PciInfo) gpu.PCI {
	function := "0"
	text := cString(info.BusId[:])
	if i := len(text) - 1; i > 0 && text[i-1] == '.' && text[i] >= '0' && text[i] <= '7' {
		function = text[i:]
	}
	return gpu.PCI{
		BusID:    fmt.Sprintf("%04x:%02x:%02x.%s", info.Domain, info.Bus, info.Device, function),
		DeviceID: info.PciDeviceId, SubsystemID: info.PciSubSystemId,
	}
}

// cString returns the text before the first NUL.
func cString[T int8 | uint8](c []T) string {
	var b strings.Builder
	for _, v := range c {
		if v == 0 {
			break
		}
		b.WriteByte(byte(v))
	}
	return b.String()
}

// UUID returns the UUID of the GPU or MIG device.
func (d Device) UUID() (string, error) {
	return get(d.handle, "nvmlDeviceGetUUID", gonvml.Device.GetUUID)
}

// MinorNumber returns the number in the name of the GPU's device node.
func (d Device) MinorNumber() (int, error) {
	return get(d.handle, "nvmlDeviceGetMinorNumber", gonvml.Device.GetMinorNumber)
}

// Name returns the name of the product.
func (d Device) Name() (string, error) {
	return get(d.handle, "nvmlDeviceGetName", gonvml.Device.GetName)
}

// MemoryInfo returns the memory of the GPU or MIG device. The library does not cache
// it.
func (d Device) MemoryInfo() (gonvml.Memory, error) {
	return get(d.handle, "nvmlDeviceGetMemoryInfo", gonvml.Device.GetMemoryInfo)
}

// TotalEnergy returns the energy in mJ that the GPU has used since the driver was loaded.
func (d Device) TotalEnergy() (uint64, error) {
	return get(d.handle, "nvmlDeviceGetTotalEnergyConsumption", gonvml.Device.GetTotalEnergyConsumption)
}

// Architecture returns the architecture of the chip.
func (d Device) Architecture() (gonvml.DeviceArchitecture, error) {
	return get(d.handle, "nvmlDeviceGetArchitecture", gonvml.Device.GetArchitecture)
}

// FieldValues reads values. Each value has a separate return code.
func (d Device) FieldValues(values []gonvml.FieldValue) error {
	return invoke(d.handle, "nvmlDeviceGetFieldValues", func(h gonvml.Device) gonvml.Return { return h.GetFieldValues(values) })
}

// RemappedRows reports whether the next reset of the GPU will remap rows of memory, and whether
// rows could not be remapped.
func (d Device) RemappedRows() (pending, failed bool, err error) {
	err = invoke(d.handle, "nvmlDeviceGetRemappedRows", func(h gonvml.Device) (ret gonvml.Return) {
		_, _, pending, failed, ret = h.GetRemappedRows()
		return ret
	})
	return pending, failed, err
}

// UncorrectedErrors returns the number of uncorrectable memory errors since the driver was loaded.
func (d Device) UncorrectedErrors() (uint64, error) {
	return get(d.handle, "nvmlDeviceGetTotalEccErrors", func(h gonvml.Device) (uint64, gonvml.Return) {
		return h.GetTotalEccErrors(gonvml.MEMORY_ERROR_TYPE_UNCORRECTED, gonvml.VOLATILE_ECC)
	})
}

// CommonAncestor returns the level of the nearest common ancestor of the two GPUs in the PCI tree.
func (d Device) CommonAncestor(other Device) (gonvml.GpuTopologyLevel, error) {
	return get(d.handle, "nvmlDeviceGetTopologyCommonAncestor", func(h gonvml.Device) (gonvml.GpuTopologyLevel, gonvml.Return) {
		return h.GetTopologyCommonAncestor(other.raw)
	})
}

// NVLinkP2P returns whether programs on d reach the memory of other over NVLink.
func (d Device) NVLinkP2P(other Device) (gonvml.GpuP2PStatus, error) {
	return get(d.handle, "nvmlDeviceGetP2PStatus", func(h gonvml.Device) (gonvml.GpuP2PStatus, gonvml.Return) {
		return h.GetP2PStatus(other.raw, gonvml.P2P_CAPS_INDEX_NVLINK)
	})
}

// NVLinkState returns whether an NVLink is active.
func (d Device) NVLinkState(link int) (gonvml.EnableState, error) {
	return get(d.handle, "nvmlDeviceGetNvLinkState", func(h gonvml.Device) (gonvml.EnableState, gonvml.Return) { return h.GetNvLinkState(link) })
}

// NVLinkRemotePCIInfo returns the PCI location of the device at the other end of an
// NVLink.
func (d Device) NVLinkRemotePCIInfo(link int) (gonvml.PciInfo, error) {
	return get(d.handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func(h gonvml.Device) (gonvml.PciInfo, gonvml.Return) {
		return h.GetNvLinkRemotePciInfo(link)
	})
}

// NVLinkRemoteType returns the kind of the device at the other end of an NVLink.
func (d Device) NVLinkRemoteType(link int) (gonvml.IntNvLinkDeviceType, error) {
	return get(d.handle, "nvmlDeviceGetNvLinkRemoteDeviceType", func(h gonvml.Device) (gonvml.IntNvLinkDeviceType, gonvml.Return) {
		return h.GetNvLinkRemoteDeviceType(link)
	})
}

// FabricInfo returns the NVLink fabric of the GPU, with the oldest version of the
// call.
func (d Device) FabricInfo() (gonvml.GpuFabricInfo, error) {
	return get(d.handle, "nvmlDeviceGetGpuFabricInfo", gonvml.Device.GetGpuFabricInfo)
}

// FabricInfoV is FabricInfo with a newer version of the call, which f selects, for
// example gonvml.GpuFabricInfoHandler.V3.
func FabricInfoV[T any](d Device, f func(gonvml.GpuFabricInfoHandler) (T, gonvml.Return)) (T, error) {
	return get(d.handle, "nvmlDeviceGetGpuFabricInfoV", func(h gonvml.Device) (T, gonvml.Return) { return f(h.GetGpuFabricInfoV()) })
}
