package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// GetMaxMigDeviceCount is a call of one GPU.
func (d timedDevice) GetMaxMigDeviceCount() (int, gonvml.Return) {
	defer d.calls.end(d.note(symMIGCount))
	return d.Device.GetMaxMigDeviceCount()
}

// GetMigDeviceHandleByIndex is a call of one GPU.
func (d timedDevice) GetMigDeviceHandleByIndex(index int) (gonvml.Device, gonvml.Return) {
	defer d.calls.end(d.note(symMIGHandle))
	h, ret := d.Device.GetMigDeviceHandleByIndex(index)
	return timedDevice{Device: h, calls: d.calls, index: d.index}, ret
}

// GetGpuInstanceId is a call of one MIG device.
func (d timedDevice) GetGpuInstanceId() (int, gonvml.Return) { //nolint:revive // the name is go-nvml's
	defer d.calls.end(d.note(symGIID))
	return d.Device.GetGpuInstanceId()
}

// GetComputeInstanceId is a call of one MIG device.
func (d timedDevice) GetComputeInstanceId() (int, gonvml.Return) { //nolint:revive // the name is go-nvml's
	defer d.calls.end(d.note(symCIID))
	return d.Device.GetComputeInstanceId()
}

// GetAttributes is a call of one MIG device.
func (d timedDevice) GetAttributes() (gonvml.DeviceAttributes, gonvml.Return) {
	defer d.calls.end(d.note(symAttributes))
	return d.Device.GetAttributes()
}

// GetGpuInstanceProfileInfo is a call of one GPU.
func (d timedDevice) GetGpuInstanceProfileInfo(profile int) (gonvml.GpuInstanceProfileInfo, gonvml.Return) {
	defer d.calls.end(d.note(symGIProfile))
	return d.Device.GetGpuInstanceProfileInfo(profile)
}

// GetFieldValues is a call of one GPU.
func (d timedDevice) GetFieldValues(values []gonvml.FieldValue) gonvml.Return {
	defer d.calls.end(d.note(symFields))
	return d.Device.GetFieldValues(values)
}

// GetRemappedRows is a call of one GPU.
func (d timedDevice) GetRemappedRows() (int, int, bool, bool, gonvml.Return) {
	defer d.calls.end(d.note(symRemapped))
	return d.Device.GetRemappedRows()
}

// GetGpuInstanceById is a call of one GPU.
func (d timedDevice) GetGpuInstanceById(id int) (gonvml.GpuInstance, gonvml.Return) { //nolint:revive // the name is go-nvml's
	defer d.calls.end(d.note(symGI))
	h, ret := d.Device.GetGpuInstanceById(id)
	return timedInstance{GpuInstance: h, calls: d.calls, index: d.index}, ret
}

// timedInstance is a GPU instance of timed.
type timedInstance struct {
	gonvml.GpuInstance
	calls *inFlight
	index int
}

// GetInfo is a call of one GPU instance.
func (i timedInstance) GetInfo() (gonvml.GpuInstanceInfo, gonvml.Return) {
	defer i.calls.end(i.calls.begin(call{op: symGIInfo, gpu: i.index}))
	return i.GpuInstance.GetInfo()
}
