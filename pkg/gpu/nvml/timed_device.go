package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// timedDevice is a GPU of timed. Each method calls the symbol that it notes.
type timedDevice struct {
	gonvml.Device
	calls *inFlight
	// index is noGPU for a GPU of an event.
	index int
}

// bare returns the handle as NVML knows it.
func bare(h gonvml.Device) gonvml.Device {
	if t, ok := h.(timedDevice); ok {
		return t.Device
	}
	return h
}

func (d timedDevice) note(op string) int { return d.calls.begin(call{op: op, gpu: d.index}) }

// GetPciInfo is a call of one GPU.
func (d timedDevice) GetPciInfo() (gonvml.PciInfo, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetPciInfo_v3"))
	return d.Device.GetPciInfo()
}

// GetUUID is a call of one GPU.
func (d timedDevice) GetUUID() (string, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetUUID"))
	return d.Device.GetUUID()
}

// GetMinorNumber is a call of one GPU.
func (d timedDevice) GetMinorNumber() (int, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetMinorNumber"))
	return d.Device.GetMinorNumber()
}

// GetName is a call of one GPU.
func (d timedDevice) GetName() (string, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetName"))
	return d.Device.GetName()
}

// GetMemoryInfo is a call of one GPU.
func (d timedDevice) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetMemoryInfo"))
	return d.Device.GetMemoryInfo()
}

// GetCudaComputeCapability is a call of one GPU.
func (d timedDevice) GetCudaComputeCapability() (int, int, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetCudaComputeCapability"))
	return d.Device.GetCudaComputeCapability()
}

// GetBrand is a call of one GPU.
func (d timedDevice) GetBrand() (gonvml.BrandType, gonvml.Return) {
	defer d.calls.end(d.note(symBrand))
	return d.Device.GetBrand()
}

// GetArchitecture is a call of one GPU.
func (d timedDevice) GetArchitecture() (gonvml.DeviceArchitecture, gonvml.Return) {
	defer d.calls.end(d.note(symArchitecture))
	return d.Device.GetArchitecture()
}

// GetMigMode is a call of one GPU.
func (d timedDevice) GetMigMode() (int, int, gonvml.Return) {
	defer d.calls.end(d.note(symMIGMode))
	return d.Device.GetMigMode()
}

// GetGpuFabricInfo is a call of one GPU.
func (d timedDevice) GetGpuFabricInfo() (gonvml.GpuFabricInfo, gonvml.Return) {
	defer d.calls.end(d.note(symFabric))
	return d.Device.GetGpuFabricInfo()
}

// fabricV2 and fabricV3 are a call of one GPU. They are no methods because
// go-nvml makes the call by a value that only its own GPUs can return.
func fabricV2(h gonvml.Device) (gonvml.GpuFabricInfo_v2, gonvml.Return) {
	defer noteFabric(h)()
	return h.GetGpuFabricInfoV().V2()
}

func fabricV3(h gonvml.Device) (gonvml.GpuFabricInfo_v3, gonvml.Return) {
	defer noteFabric(h)()
	return h.GetGpuFabricInfoV().V3()
}

// noteFabric notes the call, and returns what notes its end.
func noteFabric(h gonvml.Device) func() {
	d, ok := h.(timedDevice)
	if !ok {
		return func() {}
	}
	place := d.note(symFabricV)
	return func() { d.calls.end(place) }
}

// GetNvLinkState is a call of one GPU.
func (d timedDevice) GetNvLinkState(link int) (gonvml.EnableState, gonvml.Return) {
	defer d.calls.end(d.note(symLinkState))
	return d.Device.GetNvLinkState(link)
}

// GetNvLinkRemotePciInfo is a call of one GPU.
func (d timedDevice) GetNvLinkRemotePciInfo(link int) (gonvml.PciInfo, gonvml.Return) {
	defer d.calls.end(d.note(symLinkRemote))
	return d.Device.GetNvLinkRemotePciInfo(link)
}

// GetNvLinkRemoteDeviceType is a call of one GPU.
func (d timedDevice) GetNvLinkRemoteDeviceType(link int) (gonvml.IntNvLinkDeviceType, gonvml.Return) {
	defer d.calls.end(d.note(symLinkType))
	return d.Device.GetNvLinkRemoteDeviceType(link)
}

// GetTopologyCommonAncestor is a call of one GPU.
func (d timedDevice) GetTopologyCommonAncestor(other gonvml.Device) (gonvml.GpuTopologyLevel, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetTopologyCommonAncestor"))
	return d.Device.GetTopologyCommonAncestor(bare(other))
}

// GetSupportedEventTypes is a call of one GPU.
func (d timedDevice) GetSupportedEventTypes() (uint64, gonvml.Return) {
	defer d.calls.end(d.note("nvmlDeviceGetSupportedEventTypes"))
	return d.Device.GetSupportedEventTypes()
}

// RegisterEvents is a call of one GPU.
func (d timedDevice) RegisterEvents(types uint64, set gonvml.EventSet) gonvml.Return {
	defer d.calls.end(d.note("nvmlDeviceRegisterEvents"))
	if t, ok := set.(timedSet); ok {
		set = t.EventSet
	}
	return d.Device.RegisterEvents(types, set)
}
