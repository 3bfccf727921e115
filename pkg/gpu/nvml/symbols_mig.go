package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// MIGMode returns the MIG mode of the GPU now, and after its next reset.
func (d Device) MIGMode() (current, pending int, err error) {
	err = invoke(d.handle, "nvmlDeviceGetMigMode", func(h gonvml.Device) (ret gonvml.Return) {
		current, pending, ret = h.GetMigMode()
		return ret
	})
	return current, pending, err
}

// MaxMIGDevices returns the number of MIG devices that the GPU can have. The indices of
// MIG devices are below this number.
func (d Device) MaxMIGDevices() (int, error) {
	return get(d.handle, "nvmlDeviceGetMaxMigDeviceCount", gonvml.Device.GetMaxMigDeviceCount)
}

// MIGDevice returns the MIG device at a position in NVML's list of the MIG devices of the GPU.
func (d Device) MIGDevice(position int) (Device, error) {
	h, err := getHandle(d.handle, "nvmlDeviceGetMigDeviceHandleByIndex", func(h gonvml.Device) (gonvml.Device, gonvml.Return) {
		return h.GetMigDeviceHandleByIndex(position)
	})
	return Device{h}, err
}

// GPUInstanceID returns the id of the MIG device's GPU instance.
func (d Device) GPUInstanceID() (int, error) {
	return get(d.handle, "nvmlDeviceGetGpuInstanceId", gonvml.Device.GetGpuInstanceId)
}

// ComputeInstanceID returns the id of the MIG device's compute instance.
func (d Device) ComputeInstanceID() (int, error) {
	return get(d.handle, "nvmlDeviceGetComputeInstanceId", gonvml.Device.GetComputeInstanceId)
}

// Attributes returns the attributes of the MIG device, such as its memory and slices.
func (d Device) Attributes() (gonvml.DeviceAttributes, error) {
	return get(d.handle, "nvmlDeviceGetAttributes_v2", gonvml.Device.GetAttributes)
}

// GPUInstanceProfile returns the GPU instance profile with this number.
func (d Device) GPUInstanceProfile(number int) (gonvml.GpuInstanceProfileInfo, error) {
	return get(d.handle, "nvmlDeviceGetGpuInstanceProfileInfo", func(h gonvml.Device) (gonvml.GpuInstanceProfileInfo, gonvml.Return) {
		return h.GetGpuInstanceProfileInfo(number)
	})
}

// GPUInstance is a part of a GPU that can contain compute instances.
type GPUInstance struct{ handle[gonvml.GpuInstance] }

// GPUInstance returns the GPU instance with this id.
func (d Device) GPUInstance(id int) (GPUInstance, error) {
	h, err := getHandle(d.handle, "nvmlDeviceGetGpuInstanceById", func(h gonvml.Device) (gonvml.GpuInstance, gonvml.Return) { return h.GetGpuInstanceById(id) })
	return GPUInstance{h}, err
}

// Info returns the profile and the placement of the GPU instance.
func (g GPUInstance) Info() (gonvml.GpuInstanceInfo, error) {
	return get(g.handle, "nvmlGpuInstanceGetInfo", gonvml.GpuInstance.GetInfo)
}
