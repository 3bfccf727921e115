package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// MIGMode is the mode of the GPU now, and after its next reset.
func (d Device) MIGMode() (current, pending int, err error) {
	err = do(d.handle, "nvmlDeviceGetMigMode", func(h gonvml.Device) (ret gonvml.Return) {
		current, pending, ret = h.GetMigMode()
		return ret
	})
	return current, pending, err
}

// MaxMIGDevices is the number of indices that MIG devices can have.
func (d Device) MaxMIGDevices() (int, error) {
	return get(d.handle, "nvmlDeviceGetMaxMigDeviceCount", gonvml.Device.GetMaxMigDeviceCount)
}

// MIGDevice returns the MIG device with an index.
func (d Device) MIGDevice(index int) (Device, error) {
	h, err := sub(d.handle, "nvmlDeviceGetMigDeviceHandleByIndex", func(h gonvml.Device) (gonvml.Device, gonvml.Return) {
		return h.GetMigDeviceHandleByIndex(index)
	})
	return Device{h}, err
}

// GPUInstanceID is that of a MIG device.
func (d Device) GPUInstanceID() (int, error) {
	return get(d.handle, "nvmlDeviceGetGpuInstanceId", gonvml.Device.GetGpuInstanceId)
}

// ComputeInstanceID is that of a MIG device.
func (d Device) ComputeInstanceID() (int, error) {
	return get(d.handle, "nvmlDeviceGetComputeInstanceId", gonvml.Device.GetComputeInstanceId)
}

// Attributes are those of a MIG device.
func (d Device) Attributes() (gonvml.DeviceAttributes, error) {
	return get(d.handle, "nvmlDeviceGetAttributes_v2", gonvml.Device.GetAttributes)
}

// GPUInstanceProfile is one of the kinds of GPU instances that a GPU can have.
func (d Device) GPUInstanceProfile(number int) (gonvml.GpuInstanceProfileInfo, error) {
	return get(d.handle, "nvmlDeviceGetGpuInstanceProfileInfo", func(h gonvml.Device) (gonvml.GpuInstanceProfileInfo, gonvml.Return) {
		return h.GetGpuInstanceProfileInfo(number)
	})
}

// GPUInstance is a part of a GPU, in which there may be compute instances.
type GPUInstance struct{ handle[gonvml.GpuInstance] }

// GPUInstance returns the GPU instance with an id.
func (d Device) GPUInstance(id int) (GPUInstance, error) {
	h, err := sub(d.handle, "nvmlDeviceGetGpuInstanceById", func(h gonvml.Device) (gonvml.GpuInstance, gonvml.Return) { return h.GetGpuInstanceById(id) })
	return GPUInstance{h}, err
}

// Info is the kind and the place of a GPU instance.
func (g GPUInstance) Info() (gonvml.GpuInstanceInfo, error) {
	return get(g.handle, "nvmlGpuInstanceGetInfo", gonvml.GpuInstance.GetInfo)
}
