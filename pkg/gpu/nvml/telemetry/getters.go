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

// oneValue returns a getter of one value, which is multiplied by scale.
func oneValue[N ~uint32 | ~uint64 | ~int | ~int32](symbol string, f Field, scale float64, call func(nvml.Device) (N, error)) getter {
	return getter{symbol: symbol, fields: []Field{f}, read: func(d nvml.Device, put func(Field, float64)) error {
		value, err := call(d)
		if err == nil {
			put(f, float64(value)*scale)
		}
		return err
	}}
}

// staticGetter returns g with static set.
func staticGetter(g getter) getter {
	g.static = true
	return g
}

func clock(f Field, which gonvml.ClockType) getter {
	return oneValue("nvmlDeviceGetClockInfo", f, 1, func(d nvml.Device) (uint32, error) { return d.Clock(which) })
}

func maxClock(f Field, which gonvml.ClockType) getter {
	return staticGetter(oneValue("nvmlDeviceGetMaxClockInfo", f, 1, func(d nvml.Device) (uint32, error) { return d.MaxClock(which) }))
}

func appClock(f Field, which gonvml.ClockType) getter {
	return oneValue("nvmlDeviceGetApplicationsClock", f, 1, func(d nvml.Device) (uint32, error) { return d.ApplicationsClock(which) })
}

func threshold(f Field, which gonvml.TemperatureThresholds) getter {
	return staticGetter(oneValue("nvmlDeviceGetTemperatureThreshold", f, 1, func(d nvml.Device) (uint32, error) { return d.TemperatureThreshold(which) }))
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
		oneValue("nvmlDeviceGetCurrentClocksEventReasons", DCGM_FI_DEV_CLOCKS_EVENT_REASONS, 1, nvml.Device.ClocksEventReasons),
		maxClock(DCGM_FI_DEV_MAX_SM_CLOCK, gonvml.CLOCK_SM),
		maxClock(DCGM_FI_DEV_MAX_MEM_CLOCK, gonvml.CLOCK_MEM),
		maxClock(DCGM_FI_DEV_MAX_VIDEO_CLOCK, gonvml.CLOCK_VIDEO),
		oneValue("nvmlDeviceGetTemperature", DCGM_FI_DEV_GPU_TEMP_CELSIUS, 1, nvml.Device.Temperature),
		threshold(DCGM_FI_DEV_MEMORY_MAX_OP_TEMP_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_MEM_MAX),
		threshold(DCGM_FI_DEV_GPU_MAX_OP_TEMP_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_GPU_MAX),
		threshold(DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_SLOWDOWN),
		threshold(DCGM_FI_DEV_GPU_TEMP_SHUTDOWN_CELSIUS, gonvml.TEMPERATURE_THRESHOLD_SHUTDOWN),
		oneValue("nvmlDeviceGetPowerUsage", DCGM_FI_DEV_BOARD_POWER_WATTS, milliwatts, nvml.Device.PowerUsage),
		oneValue("nvmlDeviceGetTotalEnergyConsumption", DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 1, nvml.Device.Energy),
		oneValue("nvmlDeviceGetPowerManagementLimit", DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS, milliwatts, nvml.Device.PowerLimit),
		staticGetter(getter{symbol: "nvmlDeviceGetPowerManagementLimitConstraints", fields: []Field{DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS, DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS}, read: powerLimits}),
		staticGetter(oneValue("nvmlDeviceGetPowerManagementDefaultLimit", DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS, milliwatts, nvml.Device.DefaultPowerLimit)),
		oneValue("nvmlDeviceGetEnforcedPowerLimit", DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS, milliwatts, nvml.Device.EnforcedPowerLimit),
		oneValue("nvmlDeviceGetPerformanceState", DCGM_FI_DEV_GPU_PSTATE, 1, nvml.Device.PerformanceState),
		oneValue("nvmlDeviceGetFanSpeed", DCGM_FI_DEV_FAN_SPEED, 1, nvml.Device.FanSpeed),
		oneValue("nvmlDeviceGetPcieReplayCounter", DCGM_FI_DEV_PCIE_REPLAY_TOTAL, 1, nvml.Device.PCIeReplays),
		{symbol: "nvmlDeviceGetUtilizationRates", fields: []Field{DCGM_FI_DEV_GPU_UTIL, DCGM_FI_DEV_MEM_COPY_UTIL}, read: utilization},
		oneValue("nvmlDeviceGetEncoderUtilization", DCGM_FI_DEV_ENC_UTIL, 1, nvml.Device.EncoderUtilization),
		oneValue("nvmlDeviceGetDecoderUtilization", DCGM_FI_DEV_DEC_UTIL, 1, nvml.Device.DecoderUtilization),
		{symbol: "nvmlDeviceGetCurrPcieLinkGeneration", fields: []Field{DCGM_FI_DEV_PCIE_LINK_GEN, DCGM_FI_DEV_PCIE_LINK_WIDTH}, read: pcieLink},
		staticGetter(getter{symbol: "nvmlDeviceGetMaxPcieLinkGeneration", fields: []Field{DCGM_FI_DEV_PCIE_MAX_LINK_GEN, DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH}, read: maxPCIeLink}),
		{symbol: "nvmlDeviceGetBAR1MemoryInfo", fields: []Field{DCGM_FI_DEV_BAR1_TOTAL, DCGM_FI_DEV_BAR1_USED, DCGM_FI_DEV_BAR1_FREE}, read: bar1},
		staticGetter(oneValue("nvmlDeviceGetRetiredPages", DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL, 1, func(d nvml.Device) (int, error) {
			return d.RetiredPages(gonvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
		})),
		staticGetter(oneValue("nvmlDeviceGetRetiredPages", DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL, 1, func(d nvml.Device) (int, error) {
			return d.RetiredPages(gonvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
		})),
		{symbol: "nvmlDeviceGetGridLicensableFeatures_v4", fields: []Field{DCGM_FI_DEV_VGPU_LICENSE_STATUS}, static: true, read: licence},
		{symbol: "nvmlDeviceGetMigMode", fields: []Field{DCGM_FI_DEV_MIG_MODE}, read: migMode},
		pcieRate(DCGM_FI_DEV_PCIE_TX_THROUGHPUT, gonvml.PCIE_UTIL_TX_BYTES),
		pcieRate(DCGM_FI_DEV_PCIE_RX_THROUGHPUT, gonvml.PCIE_UTIL_RX_BYTES),
	}, append(identity(), linkErrors()...)...)
}

func utilization(d nvml.Device, put func(Field, float64)) error {
	u, err := d.Utilization()
	if err == nil {
		put(DCGM_FI_DEV_GPU_UTIL, float64(u.Gpu))
		put(DCGM_FI_DEV_MEM_COPY_UTIL, float64(u.Memory))
	}
	return err
}

func powerLimits(d nvml.Device, put func(Field, float64)) error {
	low, high, err := d.PowerLimits()
	if err == nil {
		put(DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS, float64(low)*milliwatts)
		put(DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS, float64(high)*milliwatts)
	}
	return err
}

func pcieLink(d nvml.Device, put func(Field, float64)) error {
	generation, width, err := d.PCIeLink()
	if err == nil {
		put(DCGM_FI_DEV_PCIE_LINK_GEN, float64(generation))
		put(DCGM_FI_DEV_PCIE_LINK_WIDTH, float64(width))
	}
	return err
}

func maxPCIeLink(d nvml.Device, put func(Field, float64)) error {
	generation, width, err := d.MaxPCIeLink()
	if err == nil {
		put(DCGM_FI_DEV_PCIE_MAX_LINK_GEN, float64(generation))
		put(DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH, float64(width))
	}
	return err
}

func bar1(d nvml.Device, put func(Field, float64)) error {
	m, err := d.BAR1Memory()
	if err == nil {
		put(DCGM_FI_DEV_BAR1_TOTAL, float64(m.Bar1Total/mebibyte))
		put(DCGM_FI_DEV_BAR1_USED, float64(m.Bar1Used/mebibyte))
		put(DCGM_FI_DEV_BAR1_FREE, float64(m.Bar1Free/mebibyte))
	}
	return err
}

// licence puts 1 for a GPU with a licensed vGPU feature. As in DCGM, it puts 0 for a GPU without
// such features.
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
	put(DCGM_FI_DEV_VGPU_LICENSE_STATUS, licensed)
	return nil
}

func migMode(d nvml.Device, put func(Field, float64)) error {
	current, _, err := d.MIGMode()
	if err == nil {
		put(DCGM_FI_DEV_MIG_MODE, float64(current))
	}
	return err
}
