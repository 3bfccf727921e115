package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// Device is a GPU, or a MIG device of one. Its methods are the calls of NVML that
// concern it: what they mean is in nvml.h.
type Device struct{ Handle[gonvml.Device] }

// Is reports whether both are the same device.
func (d Device) Is(other Device) bool { return d.Valid() && d.raw == other.raw }

// Valid reports whether NVML gave the handle.
func (d Device) Valid() bool { return d.raw != nil }

// PCIInfo is the place of the GPU on the PCI bus.
func (d Device) PCIInfo() (gonvml.PciInfo, error) {
	return Get(d.Handle, "nvmlDeviceGetPciInfo_v3", gonvml.Device.GetPciInfo)
}

// UUID of a GPU or a MIG device.
func (d Device) UUID() (string, error) {
	return Get(d.Handle, "nvmlDeviceGetUUID", gonvml.Device.GetUUID)
}

// MinorNumber is the number in the name of the GPU's device node.
func (d Device) MinorNumber() (int, error) {
	return Get(d.Handle, "nvmlDeviceGetMinorNumber", gonvml.Device.GetMinorNumber)
}

// Name is the name of the product.
func (d Device) Name() (string, error) {
	return Get(d.Handle, "nvmlDeviceGetName", gonvml.Device.GetName)
}

// MemoryInfo of a GPU or a MIG device. The library does not keep it.
func (d Device) MemoryInfo() (gonvml.Memory, error) {
	return Get(d.Handle, "nvmlDeviceGetMemoryInfo", gonvml.Device.GetMemoryInfo)
}

// ComputeCapability is that of CUDA.
func (d Device) ComputeCapability() (major, minor int, err error) {
	err = Do(d.Handle, "nvmlDeviceGetCudaComputeCapability", func(h gonvml.Device) (ret gonvml.Return) {
		major, minor, ret = h.GetCudaComputeCapability()
		return ret
	})
	return major, minor, err
}

// Brand is the family of the product.
func (d Device) Brand() (gonvml.BrandType, error) {
	return Get(d.Handle, "nvmlDeviceGetBrand", gonvml.Device.GetBrand)
}

// Architecture is that of the chip.
func (d Device) Architecture() (gonvml.DeviceArchitecture, error) {
	return Get(d.Handle, "nvmlDeviceGetArchitecture", gonvml.Device.GetArchitecture)
}

// FieldValues fills in values, each with an answer of its own.
func (d Device) FieldValues(values []gonvml.FieldValue) error {
	return Do(d.Handle, "nvmlDeviceGetFieldValues", func(h gonvml.Device) gonvml.Return { return h.GetFieldValues(values) })
}

// RemapPending reports whether rows of memory are remapped at the next reset.
func (d Device) RemapPending() (pending bool, err error) {
	err = Do(d.Handle, "nvmlDeviceGetRemappedRows", func(h gonvml.Device) (ret gonvml.Return) {
		_, _, pending, _, ret = h.GetRemappedRows()
		return ret
	})
	return pending, err
}

// CommonAncestor is where the paths of two GPUs meet on the PCI tree.
func (d Device) CommonAncestor(other Device) (gonvml.GpuTopologyLevel, error) {
	return Get(d.Handle, "nvmlDeviceGetTopologyCommonAncestor", func(h gonvml.Device) (gonvml.GpuTopologyLevel, gonvml.Return) {
		return h.GetTopologyCommonAncestor(other.raw)
	})
}

// NVLinkState is whether an NVLink is active.
func (d Device) NVLinkState(link int) (gonvml.EnableState, error) {
	return Get(d.Handle, "nvmlDeviceGetNvLinkState", func(h gonvml.Device) (gonvml.EnableState, gonvml.Return) { return h.GetNvLinkState(link) })
}

// NVLinkRemotePCIInfo is the place of what an NVLink leads to.
func (d Device) NVLinkRemotePCIInfo(link int) (gonvml.PciInfo, error) {
	return Get(d.Handle, "nvmlDeviceGetNvLinkRemotePciInfo_v2", func(h gonvml.Device) (gonvml.PciInfo, gonvml.Return) {
		return h.GetNvLinkRemotePciInfo(link)
	})
}

// NVLinkRemoteType is the kind of what an NVLink leads to.
func (d Device) NVLinkRemoteType(link int) (gonvml.IntNvLinkDeviceType, error) {
	return Get(d.Handle, "nvmlDeviceGetNvLinkRemoteDeviceType", func(h gonvml.Device) (gonvml.IntNvLinkDeviceType, gonvml.Return) {
		return h.GetNvLinkRemoteDeviceType(link)
	})
}

// FabricInfo is the NVLink fabric of the GPU, in the oldest form of the call.
func (d Device) FabricInfo() (gonvml.GpuFabricInfo, error) {
	return Get(d.Handle, "nvmlDeviceGetGpuFabricInfo", gonvml.Device.GetGpuFabricInfo)
}

// FabricInfoV is FabricInfo in the version that f takes out of the handler.
func FabricInfoV[T any](d Device, f func(gonvml.GpuFabricInfoHandler) (T, gonvml.Return)) (T, error) {
	return Get(d.Handle, "nvmlDeviceGetGpuFabricInfoV", func(h gonvml.Device) (T, gonvml.Return) { return f(h.GetGpuFabricInfoV()) })
}
