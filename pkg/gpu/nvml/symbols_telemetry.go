package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// MemoryInfoV2 is MemoryInfo that separates the memory that the driver reserves from used memory.
// It needs a driver of version 510 or later.
func (d Device) MemoryInfoV2() (gonvml.Memory_v2, error) {
	return get(d.handle, "nvmlDeviceGetMemoryInfo_v2", gonvml.Device.GetMemoryInfo_v2)
}

// ClocksEventReasons returns the bits of nvml.h that say why the clocks are below their
// highest frequencies.
func (d Device) ClocksEventReasons() (uint64, error) {
	reasons, err := get(d.handle, "nvmlDeviceGetCurrentClocksEventReasons", gonvml.Device.GetCurrentClocksEventReasons)
	if Missing(err) {
		return get(d.handle, "nvmlDeviceGetCurrentClocksThrottleReasons", gonvml.Device.GetCurrentClocksThrottleReasons)
	}
	return reasons, err
}

// ComputeProcesses returns the processes with a CUDA context on the GPU or MIG device.
func (d Device) ComputeProcesses() ([]gonvml.ProcessInfo, error) {
	return get(d.handle, "nvmlDeviceGetComputeRunningProcesses_v3", gonvml.Device.GetComputeRunningProcesses)
}

// ProcessUtilization returns the samples of processes that are newer than since, a time stamp of
// the driver in microseconds. The error is ERROR_NOT_FOUND if there are no samples.
func (d Device) ProcessUtilization(since uint64) ([]gonvml.ProcessUtilizationSample, error) {
	return get(d.handle, "nvmlDeviceGetProcessUtilization", func(h gonvml.Device) ([]gonvml.ProcessUtilizationSample, gonvml.Return) {
		return h.GetProcessUtilization(since)
	})
}

// GPMSupported reports whether the GPU has GPM, NVML's counters of the GPU's units. Hopper and
// later GPUs have it.
func (d Device) GPMSupported() (bool, error) {
	support, err := get(d.handle, "nvmlGpmQueryDeviceSupport", gonvml.Device.GpmQueryDeviceSupport)
	return support.IsSupportedDevice != 0, err
}

// GPMSample holds the counters of GPM at one moment.
type GPMSample struct{ handle[gonvml.GpmSample] }

// NewGPMSample returns an empty sample. The caller frees it.
func (l Library) NewGPMSample() (GPMSample, error) {
	h, err := getHandle(l.handle, "nvmlGpmSampleAlloc", gonvml.Interface.GpmSampleAlloc)
	return GPMSample{h}, err
}

// Read fills the sample with the counters of the GPU or, if instance is not below 0, of one of its
// GPU instances.
func (s GPMSample) Read(d Device, instance int) error {
	if instance < 0 {
		return invoke(d.handle, "nvmlGpmSampleGet", func(h gonvml.Device) gonvml.Return { return h.GpmSampleGet(s.raw) })
	}
	return invoke(d.handle, "nvmlGpmMigSampleGet", func(h gonvml.Device) gonvml.Return { return h.GpmMigSampleGet(instance, s.raw) })
}

// Free frees the sample.
func (s GPMSample) Free() error {
	return invoke(s.handle, "nvmlGpmSampleFree", gonvml.GpmSample.Free)
}

// GPMMetrics computes metrics from two samples of one GPU or GPU instance. The samples must be more
// than 100 ms apart. Each metric has a separate return code.
func (l Library) GPMMetrics(earlier, later GPMSample, metrics []gonvml.GpmMetric) error {
	request := gonvml.GpmMetricsGetType{Sample1: earlier.raw, Sample2: later.raw, NumMetrics: uint32(len(metrics))}
	copy(request.Metrics[:], metrics)
	l.gpu = later.gpu
	err := invoke(l.handle, "nvmlGpmMetricsGet", func(api gonvml.Interface) gonvml.Return { return api.GpmMetricsGet(&request) })
	copy(metrics, request.Metrics[:])
	return err
}
