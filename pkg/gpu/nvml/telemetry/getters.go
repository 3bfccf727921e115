package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// getter is a call of NVML, or two that belong together, that gives values of a GPU.
type getter struct {
	symbol string
	fields []Field
	// static says that the values do not change while the driver runs: they are read
	// again after slowPeriod only.
	static bool
	read   func(d nvml.Device, put func(Field, float64)) error
}

// one is a getter of one value, which is multiplied by scale.
func one[N ~uint32 | ~uint64 | ~int | ~int32](symbol string, f Field, scale float64, call func(nvml.Device) (N, error)) getter {
	return getter{symbol: symbol, fields: []Field{f}, read: func(d nvml.Device, put func(Field, float64)) error {
		value, err := call(d)
		if err == nil {
			put(f, float64(value)*scale)
		}
		return err
	}}
}

// fixed marks the values of a getter as static.
func fixed(g getter) getter {
	g.static = true
	return g
}

func clock(f Field, which gonvml.ClockType) getter {
	return one("nvmlDeviceGetClockInfo", f, 1, func(d nvml.Device) (uint32, error) { return d.Clock(which) })
}

func maxClock(f Field, which gonvml.ClockType) getter {
	return fixed(one("nvmlDeviceGetMaxClockInfo", f, 1, func(d nvml.Device) (uint32, error) { return d.MaxClock(which) }))
}

func appClock(f Field, which gonvml.ClockType) getter {
	return one("nvmlDeviceGetApplicationsClock", f, 1, func(d nvml.Device) (uint32, error) { return d.ApplicationsClock(which) })
}

func threshold(f Field, which gonvml.TemperatureThresholds) getter {
	return fixed(one("nvmlDeviceGetTemperatureThreshold", f, 1, func(d nvml.Device) (uint32, error) { return d.TemperatureThreshold(which) }))
}

// milliwatts is the scale from NVML's unit of power to DCGM's.
const milliwatts = 1e-3

// getters are the calls for values of a whole GPU. Memory is read by memory, since MIG
// devices have it too.
func getters() []getter {
	return append([]getter{
		clock(100, gonvml.CLOCK_SM),
		clock(101, gonvml.CLOCK_MEM),
		clock(102, gonvml.CLOCK_VIDEO),
		appClock(110, gonvml.CLOCK_SM),
		appClock(111, gonvml.CLOCK_MEM),
		one("nvmlDeviceGetCurrentClocksEventReasons", ClocksReasons, 1, nvml.Device.ClocksEventReasons),
		maxClock(113, gonvml.CLOCK_SM),
		maxClock(114, gonvml.CLOCK_MEM),
		maxClock(115, gonvml.CLOCK_VIDEO),
		one("nvmlDeviceGetTemperature", GPUTemp, 1, nvml.Device.Temperature),
		threshold(151, gonvml.TEMPERATURE_THRESHOLD_MEM_MAX),
		threshold(152, gonvml.TEMPERATURE_THRESHOLD_GPU_MAX),
		threshold(158, gonvml.TEMPERATURE_THRESHOLD_SLOWDOWN),
		threshold(159, gonvml.TEMPERATURE_THRESHOLD_SHUTDOWN),
		one("nvmlDeviceGetPowerUsage", PowerUsage, milliwatts, nvml.Device.PowerUsage),
		one("nvmlDeviceGetTotalEnergyConsumption", TotalEnergy, 1, nvml.Device.Energy),
		one("nvmlDeviceGetPowerManagementLimit", 160, milliwatts, nvml.Device.PowerLimit),
		fixed(getter{symbol: "nvmlDeviceGetPowerManagementLimitConstraints", fields: []Field{161, 162}, read: powerLimits}),
		fixed(one("nvmlDeviceGetPowerManagementDefaultLimit", 163, milliwatts, nvml.Device.DefaultPowerLimit)),
		one("nvmlDeviceGetEnforcedPowerLimit", 164, milliwatts, nvml.Device.EnforcedPowerLimit),
		one("nvmlDeviceGetPerformanceState", 190, 1, nvml.Device.PerformanceState),
		one("nvmlDeviceGetFanSpeed", 191, 1, nvml.Device.FanSpeed),
		one("nvmlDeviceGetPcieReplayCounter", 202, 1, nvml.Device.PCIeReplays),
		{symbol: "nvmlDeviceGetUtilizationRates", fields: []Field{GPUUtil, 204}, read: utilization},
		one("nvmlDeviceGetEncoderUtilization", 206, 1, nvml.Device.EncoderUtilization),
		one("nvmlDeviceGetDecoderUtilization", 207, 1, nvml.Device.DecoderUtilization),
		{symbol: "nvmlDeviceGetCurrPcieLinkGeneration", fields: []Field{237, 238}, read: pcieLink},
		fixed(getter{symbol: "nvmlDeviceGetMaxPcieLinkGeneration", fields: []Field{235, 236}, read: maxPCIeLink}),
		{symbol: "nvmlDeviceGetBAR1MemoryInfo", fields: []Field{90, 92, 93}, read: bar1},
		fixed(one("nvmlDeviceGetRetiredPages", 390, 1, func(d nvml.Device) (int, error) {
			return d.RetiredPages(gonvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
		})),
		fixed(one("nvmlDeviceGetRetiredPages", 391, 1, func(d nvml.Device) (int, error) {
			return d.RetiredPages(gonvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
		})),
		{symbol: "nvmlDeviceGetGridLicensableFeatures_v4", fields: []Field{526}, static: true, read: licence},
		{symbol: "nvmlDeviceGetMigMode", fields: []Field{67}, read: migMode},
	}, linkErrors()...)
}

func utilization(d nvml.Device, put func(Field, float64)) error {
	u, err := d.Utilization()
	if err == nil {
		put(GPUUtil, float64(u.Gpu))
		put(204, float64(u.Memory))
	}
	return err
}

func powerLimits(d nvml.Device, put func(Field, float64)) error {
	low, high, err := d.PowerLimits()
	if err == nil {
		put(161, float64(low)*milliwatts)
		put(162, float64(high)*milliwatts)
	}
	return err
}

func pcieLink(d nvml.Device, put func(Field, float64)) error {
	generation, width, err := d.PCIeLink()
	if err == nil {
		put(237, float64(generation))
		put(238, float64(width))
	}
	return err
}

func maxPCIeLink(d nvml.Device, put func(Field, float64)) error {
	generation, width, err := d.MaxPCIeLink()
	if err == nil {
		put(235, float64(generation))
		put(236, float64(width))
	}
	return err
}

func bar1(d nvml.Device, put func(Field, float64)) error {
	m, err := d.BAR1Memory()
	if err == nil {
		put(90, float64(m.Bar1Total/mebibyte))
		put(92, float64(m.Bar1Used/mebibyte))
		put(93, float64(m.Bar1Free/mebibyte))
	}
	return err
}

// licence gives 1 for a GPU with a vGPU feature that has a licence. A GPU without such
// features has 0, as in DCGM.
func licence(d nvml.Device, put func(Field, float64)) error {
	features, err := d.Licensable()
	if err != nil {
		return err
	}
	licensed := 0.0
	for _, f := range features.GridLicensableFeatures[:min(int(features.LicensableFeaturesCount), len(features.GridLicensableFeatures))] {
		if f.FeatureState > 0 {
			licensed = 1
		}
	}
	put(526, licensed)
	return nil
}

func migMode(d nvml.Device, put func(Field, float64)) error {
	current, _, err := d.MIGMode()
	if err == nil {
		put(67, float64(current))
	}
	return err
}

// memoryFields are what memory gives.
func memoryFields() []Field {
	return []Field{FBTotal, FBFree, FBUsed, FBReserved, FBUsedRatio}
}

const symMemory = "nvmlDeviceGetMemoryInfo_v2"

// memory reads the memory of a GPU or MIG device, in MiB. Drivers before 510 count what
// they reserve as used, and do not say how much that is.
func memory(d nvml.Device, put func(Field, float64)) error {
	m, err := d.MemoryInfoV2()
	if nvml.Missing(err) {
		var old gonvml.Memory
		old, err = d.MemoryInfo()
		m.Total, m.Free, m.Used = old.Total, old.Free, old.Used
	} else if err == nil {
		put(FBReserved, float64(m.Reserved/mebibyte))
	}
	if err != nil {
		return err
	}
	put(FBTotal, float64(m.Total/mebibyte))
	put(FBFree, float64(m.Free/mebibyte))
	put(FBUsed, float64(m.Used/mebibyte))
	if usable := m.Total - m.Reserved; usable > 0 && m.Reserved <= m.Total {
		put(FBUsedRatio, float64(m.Used)/float64(usable))
	}
	return nil
}
