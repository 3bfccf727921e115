package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// mostInstances is larger than the number of instances of any kind on a GPU. go-nvml allocates as
// many as the profile reports, but some drivers report fewer than are possible.
const mostInstances = 32

// SetMIGMode sets the MIG mode of the GPU. The activation says whether the mode is in effect:
// SUCCESS, ERROR_RESET_REQUIRED if it needs a reset, or ERROR_IN_USE. The caller needs root.
func (d Device) SetMIGMode(on bool) (activation gonvml.Return, err error) {
	mode := gonvml.DEVICE_MIG_DISABLE
	if on {
		mode = gonvml.DEVICE_MIG_ENABLE
	}
	err = invoke(d.handle, "nvmlDeviceSetMigMode", func(h gonvml.Device) (ret gonvml.Return) {
		activation, ret = h.SetMigMode(mode)
		return ret
	})
	return activation, err
}

// PossiblePlacements returns the possible placements of GPU instances of a profile on the GPU, even
// if they are not free.
func (d Device) PossiblePlacements(p gonvml.GpuInstanceProfileInfo) ([]gonvml.GpuInstancePlacement, error) {
	return get(d.handle, "nvmlDeviceGetGpuInstancePossiblePlacements_v2", func(h gonvml.Device) ([]gonvml.GpuInstancePlacement, gonvml.Return) {
		return h.GetGpuInstancePossiblePlacements(&p)
	})
}

// RemainingCapacity returns how many more GPU instances of a profile the GPU can have now.
func (d Device) RemainingCapacity(p gonvml.GpuInstanceProfileInfo) (int, error) {
	return get(d.handle, "nvmlDeviceGetGpuInstanceRemainingCapacity", func(h gonvml.Device) (int, gonvml.Return) {
		return h.GetGpuInstanceRemainingCapacity(&p)
	})
}

// CreateGPUInstance creates a GPU instance of a profile at a placement.
func (d Device) CreateGPUInstance(p gonvml.GpuInstanceProfileInfo, at gonvml.GpuInstancePlacement) (GPUInstance, error) {
	h, err := getHandle(d.handle, "nvmlDeviceCreateGpuInstanceWithPlacement", func(h gonvml.Device) (gonvml.GpuInstance, gonvml.Return) {
		return h.CreateGpuInstanceWithPlacement(&p, &at)
	})
	return GPUInstance{h}, err
}

// GPUInstances returns the GPU instances of a profile.
func (d Device) GPUInstances(p gonvml.GpuInstanceProfileInfo) ([]GPUInstance, error) {
	p.InstanceCount = mostInstances
	list, err := get(d.handle, "nvmlDeviceGetGpuInstances", func(h gonvml.Device) ([]gonvml.GpuInstance, gonvml.Return) {
		return h.GetGpuInstances(&p)
	})
	if err != nil {
		return nil, err
	}
	out := make([]GPUInstance, 0, len(list))
	for _, raw := range list {
		out = append(out, GPUInstance{handle[gonvml.GpuInstance]{span: d.span, raw: raw, gpu: d.gpu}})
	}
	return out, nil
}

// Destroy destroys the GPU instance, which must have no compute instances.
func (g GPUInstance) Destroy() error {
	return invoke(g.handle, "nvmlGpuInstanceDestroy", gonvml.GpuInstance.Destroy)
}

// ComputeProfile returns the compute instance profile with this number, with engines that
// all compute instances of the GPU instance share.
func (g GPUInstance) ComputeProfile(number int) (gonvml.ComputeInstanceProfileInfo, error) {
	return get(g.handle, "nvmlGpuInstanceGetComputeInstanceProfileInfo", func(h gonvml.GpuInstance) (gonvml.ComputeInstanceProfileInfo, gonvml.Return) {
		return h.GetComputeInstanceProfileInfo(number, gonvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	})
}

// PossiblePlacements returns the possible placements of compute instances of a profile in the GPU
// instance. Older libraries lack it (see the function Missing).
func (g GPUInstance) PossiblePlacements(p gonvml.ComputeInstanceProfileInfo) ([]gonvml.ComputeInstancePlacement, error) {
	return get(g.handle, "nvmlGpuInstanceGetComputeInstancePossiblePlacements", func(h gonvml.GpuInstance) ([]gonvml.ComputeInstancePlacement, gonvml.Return) {
		return h.GetComputeInstancePossiblePlacements(&p)
	})
}

// ComputeInstance is a part of a GPU instance: a MIG device.
type ComputeInstance struct {
	handle[gonvml.ComputeInstance]
}

// CreateComputeInstance creates a compute instance of a profile. The driver chooses the placement.
func (g GPUInstance) CreateComputeInstance(p gonvml.ComputeInstanceProfileInfo) (ComputeInstance, error) {
	h, err := getHandle(g.handle, "nvmlGpuInstanceCreateComputeInstance", func(h gonvml.GpuInstance) (gonvml.ComputeInstance, gonvml.Return) {
		return h.CreateComputeInstance(&p)
	})
	return ComputeInstance{h}, err
}

// CreateComputeInstanceAt creates a compute instance of a profile at a placement. Older libraries
// lack it (see the function Missing).
func (g GPUInstance) CreateComputeInstanceAt(p gonvml.ComputeInstanceProfileInfo, at gonvml.ComputeInstancePlacement) (ComputeInstance, error) {
	h, err := getHandle(g.handle, "nvmlGpuInstanceCreateComputeInstanceWithPlacement", func(h gonvml.GpuInstance) (gonvml.ComputeInstance, gonvml.Return) {
		return h.CreateComputeInstanceWithPlacement(&p, &at)
	})
	return ComputeInstance{h}, err
}

// ComputeInstances returns the compute instances of a profile in the GPU instance.
func (g GPUInstance) ComputeInstances(p gonvml.ComputeInstanceProfileInfo) ([]ComputeInstance, error) {
	p.InstanceCount = mostInstances
	list, err := get(g.handle, "nvmlGpuInstanceGetComputeInstances", func(h gonvml.GpuInstance) ([]gonvml.ComputeInstance, gonvml.Return) {
		return h.GetComputeInstances(&p)
	})
	if err != nil {
		return nil, err
	}
	out := make([]ComputeInstance, 0, len(list))
	for _, raw := range list {
		out = append(out, ComputeInstance{handle[gonvml.ComputeInstance]{span: g.span, raw: raw, gpu: g.gpu}})
	}
	return out, nil
}

// Info returns the profile and the placement of the compute instance. The size of the
// placement is 0 if an older library does not report it.
func (c ComputeInstance) Info() (gonvml.ComputeInstanceInfo, error) {
	return get(c.handle, "nvmlComputeInstanceGetInfo", gonvml.ComputeInstance.GetInfo)
}

// Destroy destroys the compute instance.
func (c ComputeInstance) Destroy() error {
	return invoke(c.handle, "nvmlComputeInstanceDestroy", gonvml.ComputeInstance.Destroy)
}

// GraphicsProcesses returns the processes with a graphics context on the GPU or MIG device.
func (d Device) GraphicsProcesses() ([]gonvml.ProcessInfo, error) {
	return get(d.handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", gonvml.Device.GetGraphicsRunningProcesses)
}
