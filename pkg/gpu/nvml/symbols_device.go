package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// Device is a GPU, or a MIG device of one. Its methods are the calls of NVML that
// concern it: what they mean is in nvml.h.
type Device struct{ handle[gonvml.Device] }

// Is reports whether both are the same device.
func (d Device) Is(other Device) bool { return d.Valid() && d.raw == other.raw }

// Valid reports whether NVML gave the handle.
func (d Device) Valid() bool { return d.raw != nil }

// PCIInfo is the place of the GPU on the PCI bus.
func (d Device) PCIInfo() (gonvml.PciInfo, error) {
	return get(d.handle, "nvmlDeviceGetPciInfo_v3", gonvml.Device.GetPciInfo)
}

// UUID of a GPU or a MIG device.
func (d Device) UUID() (string, error) {
	return get(d.handle, "nvmlDeviceGetUUID", gonvml.Device.GetUUID)
}

// MinorNumber is the number in the name of the GPU's device node.
func (d Device) MinorNumber() (int, error) {
	return get(d.handle, "nvmlDeviceGetMinorNumber", gonvml.Device.GetMinorNumber)
}

// Name is the name of the product.
func (d Device) Name() (string, error) {
	return get(d.handle, "nvmlDeviceGetName", gonvml.Device.GetName)
}

// MemoryInfo of a GPU or a MIG device. The library does not keep it.
func (d Device) MemoryInfo() (gonvml.Memory, error) {
	return get(d.handle, "nvmlDeviceGetMemoryInfo", gonvml.Device.GetMemoryInfo)
}

// ComputeCapability is that of CUDA.
func (d Device) ComputeCapability() (major, minor int, err error) {
	err = do(d.handle, "nvmlDeviceGetCudaComputeCapability", func(h gonvml.Device) (ret gonvml.Return) {
		major, minor, ret = h.GetCudaComputeCapability()
		return ret
	})
	return major, minor, err
}

// Brand is the family of the product.
func (d Device) Brand() (gonvml.BrandType, error) {
	return get(d.handle, "nvmlDeviceGetBrand", gonvml.Device.GetBrand)
}

// Architecture is that of the chip.
func (d Device) Architecture() (gonvml.DeviceArchitecture, error) {
	return get(d.handle, "nvmlDeviceGetArchitecture", gonvml.Device.GetArchitecture)
}

// FieldValues fills in values, each with an answer of its own.
func (d Device) FieldValues(values []gonvml.FieldValue) error {
	return do(d.handle, "nvmlDeviceGetFieldValues", func(h gonvml.Device) gonvml.Return { return h.GetFieldValues(values) })
}

// RemapPending reports whether rows of memory are remapped at the next reset.
func (d Device) RemapPending() (pending bool, err error) {
	err = do(d.handle, "nvmlDeviceGetRemappedRows", func(h gonvml.Device) (ret gonvml.Return) {
		_, _, pending, _, ret = h.GetRemappedRows()
		return ret
	})
	return pending, err
}

// CommonAncestor is where the paths of two GPUs meet on the PCI tree.
func (d Device) CommonAncestor(other Device) (gonvml.GpuTopologyLevel, error) {
	return get(d.handle, "nvmlDeviceGetTopologyCommonAncestor", func(h gonvml.Device) (gonvml.GpuTopologyLevel, gonvml.Return) {
		return h.GetTopologyCommonAncestor(other.raw)
	})
}

// NVLinkState is whether an NVLink is active.
func (d Device) NVLinkState(link int) (gonvml.EnableState, error) {
	return get(d.handle, "nvmlDeviceGetNvLinkState", func(h gonvml.Device) (gonvml.EnableState, gonvml.Return) { return h.GetNvLinkState(link) })
}

// NVLinkRemotePCIInfo is the place of what an NVLink leads to.
func (d Device) NVLinkRemotePCIInfo(link int) (gonvml.PciInfo, error) {
	return get(d.handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func(h gonvml.Device) (gonvml.PciInfo, gonvml.Return) {
		return h.GetNvLinkRemotePciInfo(link)
	})
}

// NVLinkRemoteType is the kind of what an NVLink leads to.
func (d Device) NVLinkRemoteType(link int) (gonvml.IntNvLinkDeviceType, error) {
	return get(d.handle, "nvmlDeviceGetNvLinkRemoteDeviceType", func(h gonvml.Device) (gonvml.IntNvLinkDeviceType, gonvml.Return) {
		return h.GetNvLinkRemoteDeviceType(link)
	})
}

// FabricInfo is the NVLink fabric of the GPU, in the oldest form of the call.
func (d Device) FabricInfo() (gonvml.GpuFabricInfo, error) {
	return get(d.handle, "nvmlDeviceGetGpuFabricInfo", gonvml.Device.GetGpuFabricInfo)
}

// FabricInfoV is FabricInfo in the version that f takes out of the handler.
func FabricInfoV[T any](d Device, f func(gonvml.GpuFabricInfoHandler) (T, gonvml.Return)) (T, error) {
	return get(d.handle, "nvmlDeviceGetGpuFabricInfoV", func(h gonvml.Device) (T, gonvml.Return) { return f(h.GetGpuFabricInfoV()) })
}
