package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// getter is a call of NVML, or two calls that belong together, that returns values of a GPU.
type getter struct {
	symbol string
	fields []Field
	// static says that the values do not change while the driver runs. They are read again only
	// after slowPeriod.
	static bool
	read   func(d nvml.Device, put func(Field, float64)) error
	// readNode replaces read for values of the node.
	readNode func(l nvml.Library, put func(Field, float64)) error
}

// call makes the call.
func (g getter) call(l nvml.Library, d nvml.Device, put func(Field, float64)) error {
	if g.readNode != nil {
		return g.readNode(l, put)
	}
	return g.read(d, put)
}

// oneValue returns a getter of one value, which is multiplied by scale. call is the function of NVML.
func oneValue[N ~uint32 | ~uint64 | ~int | ~int32](symbol string, f Field, scale float64, call func(gonvml.Device) (N, gonvml.Return)) getter {
	return values(symbol, call, func(value N, put func(Field, float64)) { put(f, float64(value)*scale) }, f)
}

// values returns a getter of several values. call is the function of NVML. put receives the result of
// call, and a function that stores a value.
func values[T any](symbol string, call func(gonvml.Device) (T, gonvml.Return), put func(T, func(Field, float64)), fields ...Field) getter {
	return getter{symbol: symbol, fields: fields, read: func(d nvml.Device, to func(Field, float64)) error {
		result, err := nvml.Get(d, symbol, call)
		if err == nil {
			put(result, to)
		}
		return err
	}}
}

// both returns a function of NVML with its two results in one value.
func both[T any](call func(gonvml.Device) (T, T, gonvml.Return)) func(gonvml.Device) ([2]T, gonvml.Return) {
	return func(d gonvml.Device) (pair [2]T, ret gonvml.Return) {
		pair[0], pair[1], ret = call(d)
		return pair, ret
	}
}

// first returns a function of NVML without its second result, the period of the sample.
func first(call func(gonvml.Device) (uint32, uint32, gonvml.Return)) func(gonvml.Device) (uint32, gonvml.Return) {
	return func(d gonvml.Device) (uint32, gonvml.Return) {
		value, _, ret := call(d)
		return value, ret
	}
}

// staticGetter returns g with static set.
func staticGetter(g getter) getter {
	g.static = true
	return g
}

func clock(f Field, which gonvml.ClockType) getter {
	return oneValue("nvmlDeviceGetClockInfo", f, 1, func(d gonvml.Device) (uint32, gonvml.Return) { return d.GetClockInfo(which) })
}

func maxClock(f Field, which gonvml.ClockType) getter {
	return staticGetter(oneValue("nvmlDeviceGetMaxClockInfo", f, 1, func(d gonvml.Device) (uint32, gonvml.Return) { return d.GetMaxClockInfo(which) }))
}

func appClock(f Field, which gonvml.ClockType) getter {
	return oneValue("nvmlDeviceGetApplicationsClock", f, 1, func(d gonvml.Device) (uint32, gonvml.Return) { return d.GetApplicationsClock(which) })
}

func threshold(f Field, which gonvml.TemperatureThresholds) getter {
	return staticGetter(oneValue("nvmlDeviceGetTemperatureThreshold", f, 1, func(d gonvml.Device) (uint32, gonvml.Return) { return d.GetTemperatureThreshold(which) }))
}

// retiredPages returns the getter of the number of memory pages that were retired for a cause.
func retiredPages(f Field, cause gonvml.PageRetirementCause) getter {
	return staticGetter(oneValue("nvmlDeviceGetRetiredPages", f, 1, func(d gonvml.Device) (int, gonvml.Return) {
		pages, ret := d.GetRetiredPages(cause)
		return len(pages), ret
	}))
}

// milliwatts is the scale from NVML's unit of power to DCGM's.
const milliwatts = 1e-3

// getters returns the calls for values of a whole GPU. The function memory reads memory, because
// MIG devices also have memory.
func getters() []getter {
	return append([]getter{
		clock(DCGM_FI_DEV_SM_CLOCK, gonvml.CLOCK_SM),
		clock(DCGM_FI_DEV_MEM_CLOCK, gonvml.CLOCK_MEM),
		clock(DCGM_FI_DEV_VIDEO_CLOCK, gonvml.CLOCK_VIDEO),
		appClock(DCGM_FI_DEV_APP_SM_CLOCK, gonvml.CLOCK_SM),
		appClock(DCGM_FI_DEV_APP_MEM_CLOCK, gonvml.CLOCK_MEM),
		{symbol: "nvmlDeviceGetCurrentClocksEventReasons", fields: []Field{DCGM_FI_DEV_CLOCKS_EVENT_REASONS}, read: clocksEventReasons},
		maxClock(DCGM_FI_DEV_MAX_SM_CLOCK, gonvml.CLOCK_SM),
		maxClock(DCGM_FI_DEV_MAX_MEM_CLOCK, gonvml.CLOCK_MEM),
		maxClock(DCGM_FI_DEV_MAX_VIDEO_CLOCK, gonvml.CLOCK_VIDEO),
		oneValue("nvmlDeviceGetTemperature", DCGM_FI_DEV_GPU_TEMP_CELSIUS, 1, func(d gonvml.Device) (uint32, gonvml.Return) {
			return d.GetTemperature(gonvml.TEMPERATURE_GPU)
		}),
		threshold(DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_MEM_MAX),
		threshold(DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_GPU_MAX),
		threshold(DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_SLOWDOWN),
		threshold(DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_SHUTDOWN),
		oneValue("nvmlDeviceGetPowerUsage", DCGM_FI_DEV_BOARD_POWER_WATTS, milliwatts, gonvml.Device.GetPowerUsage),
		oneValue("nvmlDeviceGetTotalEnergyConsumption", DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 1, gonvml.Device.GetTotalEnergyConsumption),
		oneValue("nvmlDeviceGetPowerManagementLimit", DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS, milliwatts, gonvml.Device.GetPowerManagementLimit),
		staticGetter(values("nvmlDeviceGetPowerManagementLimitConstraints", both(gonvml.Device.GetPowerManagementLimitConstraints), powerLimits, DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS, DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS)),
		staticGetter(oneValue("nvmlDeviceGetPowerManagementDefaultLimit", DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS, milliwatts, gonvml.Device.GetPowerManagementDefaultLimit)),
		oneValue("nvmlDeviceGetEnforcedPowerLimit", DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS, milliwatts, gonvml.Device.GetEnforcedPowerLimit),
		oneValue("nvmlDeviceGetPerformanceState", DCGM_FI_DEV_GPU_PSTATE, 1, gonvml.Device.GetPerformanceState),
		oneValue("nvmlDeviceGetFanSpeed", DCGM_FI_DEV_FAN_SPEED, 1, gonvml.Device.GetFanSpeed),
		oneValue("nvmlDeviceGetPcieReplayCounter", DCGM_FI_DEV_PCIE_REPLAY_TOTAL, 1, gonvml.Device.GetPcieReplayCounter),
		values("nvmlDeviceGetUtilizationRates", gonvml.Device.GetUtilizationRates, utilization, DCGM_FI_DEV_GPU_UTIL, DCGM_FI_DEV_MEM_COPY_UTIL),
		oneValue("nvmlDeviceGetEncoderUtilization", DCGM_FI_DEV_ENC_UTIL, 1, first(gonvml.Device.GetEncoderUtilization)),
		oneValue("nvmlDeviceGetDecoderUtilization", DCGM_FI_DEV_DEC_UTIL, 1, first(gonvml.Device.GetDecoderUtilization)),
		oneValue("nvmlDeviceGetCurrPcieLinkGeneration", DCGM_FI_DEV_PCIE_LINK_GEN, 1, gonvml.Device.GetCurrPcieLinkGeneration),
		oneValue("nvmlDeviceGetCurrPcieLinkWidth", DCGM_FI_DEV_PCIE_LINK_WIDTH, 1, gonvml.Device.GetCurrPcieLinkWidth),
		staticGetter(oneValue("nvmlDeviceGetMaxPcieLinkGeneration", DCGM_FI_DEV_PCIE_MAX_LINK_GEN, 1, gonvml.Device.GetMaxPcieLinkGeneration)),
		staticGetter(oneValue("nvmlDeviceGetMaxPcieLinkWidth", DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH, 1, gonvml.Device.GetMaxPcieLinkWidth)),
		values("nvmlDeviceGetBAR1MemoryInfo", gonvml.Device.GetBAR1MemoryInfo, bar1, DCGM_FI_DEV_BAR1_TOTAL, DCGM_FI_DEV_BAR1_USED, DCGM_FI_DEV_BAR1_FREE),
		retiredPages(DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL, gonvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
		retiredPages(DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL, gonvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
		staticGetter(values("nvmlDeviceGetGridLicensableFeatures_v4", gonvml.Device.GetGridLicensableFeatures, licence, DCGM_FI_DEV_VGPU_LICENSE_STATUS)),
		oneValue("nvmlDeviceGetMigMode", DCGM_FI_DEV_MIG_MODE, 1, func(d gonvml.Device) (int, gonvml.Return) {
			current, _, ret := d.GetMigMode()
			return current, ret
		}),
		pcieRate(DCGM_FI_DEV_PCIE_TX_THROUGHPUT, gonvml.PCIE_UTIL_TX_BYTES),
		pcieRate(DCGM_FI_DEV_PCIE_RX_THROUGHPUT, gonvml.PCIE_UTIL_RX_BYTES),
	}, append(identity(), linkErrors()...)...)
}

func utilization(u gonvml.Utilization, put func(Field, float64)) {
	put(DCGM_FI_DEV_GPU_UTIL, float64(u.Gpu))
	put(DCGM_FI_DEV_MEM_COPY_UTIL, float64(u.Memory))
}

func clocksEventReasons(d nvml.Device, put func(Field, float64)) error {
	reasons, err := d.ClocksEventReasons()
	if err == nil {
		put(DCGM_FI_DEV_CLOCKS_EVENT_REASONS, float64(reasons))
	}
	return err
}

func powerLimits(limits [2]uint32, put func(Field, float64)) {
	put(DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS, float64(limits[0])*milliwatts)
	put(DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS, float64(limits[1])*milliwatts)
}

func bar1(m gonvml.BAR1Memory, put func(Field, float64)) {
	put(DCGM_FI_DEV_BAR1_TOTAL, float64(m.Bar1Total/mebibyte))
	put(DCGM_FI_DEV_BAR1_USED, float64(m.Bar1Used/mebibyte))
	put(DCGM_FI_DEV_BAR1_FREE, float64(m.Bar1Free/mebibyte))
}

// licence puts 1 for a GPU with a licensed vGPU feature. As in DCGM, it puts 0 for a GPU without
// such features.
func licence(features gonvml.GridLicensableFeatures, put func(Field, float64)) {
	licensed := 0.0
	for _, f := range features.GridLicensableFeatures[:min(int(features.LicensableFeaturesCount), len(features.GridLicensableFeatures))] {
		if f.FeatureState > 0 {
			licensed = 1
		}
	}
	put(DCGM_FI_DEV_VGPU_LICENSE_STATUS, licensed)
}
