package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// Utilization returns the share of the time since the driver's last sample in which the GPU and its
// memory were busy, in percent. It is not supported in MIG mode.
func (d Device) Utilization() (gonvml.Utilization, error) {
	return get(d.handle, "nvmlDeviceGetUtilizationRates", gonvml.Device.GetUtilizationRates)
}

// EncoderUtilization returns the utilization of the video encoders, in percent.
func (d Device) EncoderUtilization() (uint32, error) {
	return getFirst(d, "nvmlDeviceGetEncoderUtilization", gonvml.Device.GetEncoderUtilization)
}

// DecoderUtilization returns the utilization of the video decoders, in percent.
func (d Device) DecoderUtilization() (uint32, error) {
	return getFirst(d, "nvmlDeviceGetDecoderUtilization", gonvml.Device.GetDecoderUtilization)
}

// getFirst is get for a call with two results. It ignores the second one, the period of the sample.
func getFirst(d Device, symbol string, f func(gonvml.Device) (uint32, uint32, gonvml.Return)) (uint32, error) {
	return get(d.handle, symbol, func(h gonvml.Device) (uint32, gonvml.Return) {
		value, _, ret := f(h)
		return value, ret
	})
}

// Clock returns the frequency of a clock now, in MHz.
func (d Device) Clock(which gonvml.ClockType) (uint32, error) {
	return get(d.handle, "nvmlDeviceGetClockInfo", func(h gonvml.Device) (uint32, gonvml.Return) { return h.GetClockInfo(which) })
}

// MaxClock returns the highest frequency of a clock, in MHz.
func (d Device) MaxClock(which gonvml.ClockType) (uint32, error) {
	return get(d.handle, "nvmlDeviceGetMaxClockInfo", func(h gonvml.Device) (uint32, gonvml.Return) { return h.GetMaxClockInfo(which) })
}

// ApplicationsClock returns the frequency that applications asked for, in MHz.
func (d Device) ApplicationsClock(which gonvml.ClockType) (uint32, error) {
	return get(d.handle, "nvmlDeviceGetApplicationsClock", func(h gonvml.Device) (uint32, gonvml.Return) { return h.GetApplicationsClock(which) })
}

// Temperature returns the temperature of the GPU in degrees Celsius.
func (d Device) Temperature() (uint32, error) {
	return get(d.handle, "nvmlDeviceGetTemperature", func(h gonvml.Device) (uint32, gonvml.Return) {
		return h.GetTemperature(gonvml.TEMPERATURE_GPU)
	})
}

// TemperatureThreshold returns a limit in degrees Celsius.
func (d Device) TemperatureThreshold(which gonvml.TemperatureThresholds) (uint32, error) {
	return get(d.handle, "nvmlDeviceGetTemperatureThreshold", func(h gonvml.Device) (uint32, gonvml.Return) {
		return h.GetTemperatureThreshold(which)
	})
}

// FanSpeed returns the intended speed of the fan in percent of its maximum.
func (d Device) FanSpeed() (uint32, error) {
	return get(d.handle, "nvmlDeviceGetFanSpeed", gonvml.Device.GetFanSpeed)
}

// PowerUsage returns the power that the board draws, in mW.
func (d Device) PowerUsage() (uint32, error) {
	return get(d.handle, "nvmlDeviceGetPowerUsage", gonvml.Device.GetPowerUsage)
}

// PowerLimit returns the limit that was set for the board, in mW.
func (d Device) PowerLimit() (uint32, error) {
	return get(d.handle, "nvmlDeviceGetPowerManagementLimit", gonvml.Device.GetPowerManagementLimit)
}

// DefaultPowerLimit returns the limit of the board after a boot, in mW.
func (d Device) DefaultPowerLimit() (uint32, error) {
	return get(d.handle, "nvmlDeviceGetPowerManagementDefaultLimit", gonvml.Device.GetPowerManagementDefaultLimit)
}

// EnforcedPowerLimit returns the lowest of all limits that apply to the board, in mW.
func (d Device) EnforcedPowerLimit() (uint32, error) {
	return get(d.handle, "nvmlDeviceGetEnforcedPowerLimit", gonvml.Device.GetEnforcedPowerLimit)
}

// PowerLimits returns the lowest and the highest limit that can be set, in mW.
func (d Device) PowerLimits() (low, high uint32, err error) {
	err = invoke(d.handle, "nvmlDeviceGetPowerManagementLimitConstraints", func(h gonvml.Device) (ret gonvml.Return) {
		low, high, ret = h.GetPowerManagementLimitConstraints()
		return ret
	})
	return low, high, err
}

// Energy returns the energy that the board has used since the driver was loaded, in mJ.
func (d Device) Energy() (uint64, error) {
	return get(d.handle, "nvmlDeviceGetTotalEnergyConsumption", gonvml.Device.GetTotalEnergyConsumption)
}

// MemoryInfoV2 is MemoryInfo that separates the memory that the driver reserves from used memory.
// It needs a driver of version 510 or later.
func (d Device) MemoryInfoV2() (gonvml.Memory_v2, error) {
	return get(d.handle, "nvmlDeviceGetMemoryInfo_v2", gonvml.Device.GetMemoryInfo_v2)
}

// BAR1Memory returns the memory that the CPU can map, in bytes.
func (d Device) BAR1Memory() (gonvml.BAR1Memory, error) {
	return get(d.handle, "nvmlDeviceGetBAR1MemoryInfo", gonvml.Device.GetBAR1MemoryInfo)
}

// PerformanceState returns the state from 0, the fastest, to 15.
func (d Device) PerformanceState() (gonvml.Pstates, error) {
	return get(d.handle, "nvmlDeviceGetPerformanceState", gonvml.Device.GetPerformanceState)
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

// Index returns the number of the GPU in NVML.
func (d Device) Index() (int, error) {
	return get(d.handle, "nvmlDeviceGetIndex", gonvml.Device.GetIndex)
}

// PersistenceMode returns whether the driver keeps the GPU initialized without a user.
func (d Device) PersistenceMode() (gonvml.EnableState, error) {
	return get(d.handle, "nvmlDeviceGetPersistenceMode", gonvml.Device.GetPersistenceMode)
}

// ComputeMode returns which programs may use the GPU.
func (d Device) ComputeMode() (gonvml.ComputeMode, error) {
	return get(d.handle, "nvmlDeviceGetComputeMode", gonvml.Device.GetComputeMode)
}

// ECCMode returns whether ECC is on, and whether it is on after the next reset of the GPU.
func (d Device) ECCMode() (current, pending gonvml.EnableState, err error) {
	err = invoke(d.handle, "nvmlDeviceGetEccMode", func(h gonvml.Device) (ret gonvml.Return) {
		current, pending, ret = h.GetEccMode()
		return ret
	})
	return current, pending, err
}

// PCIeThroughput returns the rate of one direction, in KB/s. It blocks for 20 ms (nvml.h).
func (d Device) PCIeThroughput(which gonvml.PcieUtilCounter) (uint32, error) {
	return get(d.handle, "nvmlDeviceGetPcieThroughput", func(h gonvml.Device) (uint32, gonvml.Return) { return h.GetPcieThroughput(which) })
}

// PCIeReplays returns how often a packet on the PCIe link was sent again.
func (d Device) PCIeReplays() (int, error) {
	return get(d.handle, "nvmlDeviceGetPcieReplayCounter", gonvml.Device.GetPcieReplayCounter)
}

// PCIeLink returns the generation and the width of the PCIe link now.
func (d Device) PCIeLink() (generation, width int, err error) {
	generation, err = get(d.handle, "nvmlDeviceGetCurrPcieLinkGeneration", gonvml.Device.GetCurrPcieLinkGeneration)
	if err != nil {
		return 0, 0, err
	}
	width, err = get(d.handle, "nvmlDeviceGetCurrPcieLinkWidth", gonvml.Device.GetCurrPcieLinkWidth)
	return generation, width, err
}

// MaxPCIeLink returns the highest generation and width of the PCIe link in this machine.
func (d Device) MaxPCIeLink() (generation, width int, err error) {
	generation, err = get(d.handle, "nvmlDeviceGetMaxPcieLinkGeneration", gonvml.Device.GetMaxPcieLinkGeneration)
	if err != nil {
		return 0, 0, err
	}
	width, err = get(d.handle, "nvmlDeviceGetMaxPcieLinkWidth", gonvml.Device.GetMaxPcieLinkWidth)
	return generation, width, err
}

// RetiredPages returns the number of memory pages that were retired for a cause.
func (d Device) RetiredPages(cause gonvml.PageRetirementCause) (int, error) {
	return get(d.handle, "nvmlDeviceGetRetiredPages", func(h gonvml.Device) (int, gonvml.Return) {
		pages, ret := h.GetRetiredPages(cause)
		return len(pages), ret
	})
}

// Licensable returns the vGPU features of the GPU and their licences.
func (d Device) Licensable() (gonvml.GridLicensableFeatures, error) {
	return get(d.handle, "nvmlDeviceGetGridLicensableFeatures_v4", gonvml.Device.GetGridLicensableFeatures)
}

// Serial returns the number that is printed on the board.
func (d Device) Serial() (string, error) {
	return get(d.handle, "nvmlDeviceGetSerial", gonvml.Device.GetSerial)
}

// VBIOSVersion returns the version of the VBIOS.
func (d Device) VBIOSVersion() (string, error) {
	return get(d.handle, "nvmlDeviceGetVbiosVersion", gonvml.Device.GetVbiosVersion)
}

// InforomVersion returns the version of an object of the InfoROM.
func (d Device) InforomVersion(object gonvml.InforomObject) (string, error) {
	return get(d.handle, "nvmlDeviceGetInforomVersion", func(h gonvml.Device) (string, gonvml.Return) { return h.GetInforomVersion(object) })
}

// InforomImageVersion returns the version of the image of the InfoROM.
func (d Device) InforomImageVersion() (string, error) {
	return get(d.handle, "nvmlDeviceGetInforomImageVersion", gonvml.Device.GetInforomImageVersion)
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
