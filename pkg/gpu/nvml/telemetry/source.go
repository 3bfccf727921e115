package telemetry

import (
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

const mebibyte = 1 << 20

// fieldSource is a value of nvmlDeviceGetFieldValues, multiplied by scale.
type fieldSource struct {
	field Field
	id    uint32
	scope uint32
	scale float64
	// counts says that the value is a counter that wraps at the end of its type.
	counts bool
}

// allLinks is the scope of a value for all NVLinks together.
const allLinks = ^uint32(0)

// fieldValues returns the values that are read with one call. If several values are for one field,
// the first value that the GPU supports counts.
func fieldValues() []fieldSource {
	return append([]fieldSource{
		{field: DCGM_FI_DEV_MEMORY_TEMP_CELSIUS, id: gonvml.FI_DEV_MEMORY_TEMP, scale: 1},
		{field: DCGM_FI_DEV_BOARD_POWER_RAW_WATTS, id: gonvml.FI_DEV_POWER_INSTANT, scale: milliwatts},
		{field: DCGM_FI_DEV_POWER_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_POWER, scale: 1},
		{field: DCGM_FI_DEV_THERMAL_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_THERMAL, scale: 1},
		{field: DCGM_FI_DEV_SYNC_BOOST_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_SYNC_BOOST, scale: 1},
		{field: DCGM_FI_DEV_BOARD_LIMIT_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_BOARD_LIMIT, scale: 1},
		{field: DCGM_FI_DEV_LOW_UTIL_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_LOW_UTILIZATION, scale: 1},
		{field: DCGM_FI_DEV_RELIABILITY_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_RELIABILITY, scale: 1},
		{field: DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS, scale: 1},
		{field: DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION, id: gonvml.FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS, scale: 1},
		{field: DCGM_FI_DEV_ECC_SBE_VOL_TOTAL, id: gonvml.FI_DEV_ECC_SBE_VOL_TOTAL, scale: 1},
		{field: DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, id: gonvml.FI_DEV_ECC_DBE_VOL_TOTAL, scale: 1},
		{field: DCGM_FI_DEV_ECC_SBE_AGG_TOTAL, id: gonvml.FI_DEV_ECC_SBE_AGG_TOTAL, scale: 1},
		{field: DCGM_FI_DEV_ECC_DBE_AGG_TOTAL, id: gonvml.FI_DEV_ECC_DBE_AGG_TOTAL, scale: 1},
		{field: DCGM_FI_DEV_PAGE_RETIRED_PENDING, id: gonvml.FI_DEV_RETIRED_PENDING, scale: 1},
		{field: DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL, id: gonvml.FI_DEV_REMAPPED_UNC, scale: 1},
		{field: DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL, id: gonvml.FI_DEV_REMAPPED_COR, scale: 1},
		{field: DCGM_FI_DEV_ROW_REMAP_FAILED, id: gonvml.FI_DEV_REMAPPED_FAILURE, scale: 1},
		{field: DCGM_FI_DEV_ROW_REMAP_PENDING, id: gonvml.FI_DEV_REMAPPED_PENDING, scale: 1},
		{field: PCIeTxBytes, id: gonvml.FI_DEV_PCIE_COUNT_TX_BYTES, scale: 1, counts: true},
		{field: PCIeRxBytes, id: gonvml.FI_DEV_PCIE_COUNT_RX_BYTES, scale: 1, counts: true},
		{field: ThrottledPowerCap, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, scale: 1},
		{field: ThrottledSyncBoost, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, scale: 1},
		{field: ThrottledSWThermal, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, scale: 1},
		{field: ThrottledHWThermal, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, scale: 1},
		{field: ThrottledPowerBrake, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, scale: 1},
		{field: DCGM_FI_DEV_GPU_RECOVERY_ACTION, id: gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION, scale: 1},
		{field: DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP, scale: 1},
		{field: DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST, scale: 1},
		{field: DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, scale: 1},
		{field: DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, scale: 1},
		{field: DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS, id: gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, scale: 1},
		{field: DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL, id: gonvml.FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS, scale: 1},
		{field: DCGM_FI_DEV_C2C_LINK_QUANTITY, id: gonvml.FI_DEV_C2C_LINK_COUNT, scale: 1},
	}, append(linkCounters(), linkValues()...)...)
}

const symFieldValues = "nvmlDeviceGetFieldValues"

// textSource is a value that is text. It is read once.
type textSource struct {
	field  Field
	symbol string
	read   func(nvml.Device) (string, error)
}

func texts() []textSource {
	return []textSource{
		text("nvmlDeviceGetName", DCGM_FI_DEV_GPU_NAME, gonvml.Device.GetName),
		text("nvmlDeviceGetSerial", DCGM_FI_DEV_BOARD_SERIAL, gonvml.Device.GetSerial),
		text("nvmlDeviceGetUUID", DCGM_FI_DEV_GPU_UUID, gonvml.Device.GetUUID),
		{DCGM_FI_DEV_PCI_BUS_ID, "nvmlDeviceGetPciInfo_v3", nvml.Device.PCIBusID},
		inforom(DCGM_FI_DEV_INFOROM_OEM_VERSION, gonvml.INFOROM_OEM),
		inforom(DCGM_FI_DEV_INFOROM_ECC_VERSION, gonvml.INFOROM_ECC),
		inforom(DCGM_FI_DEV_INFOROM_POWER_VERSION, gonvml.INFOROM_POWER),
		text("nvmlDeviceGetInforomImageVersion", DCGM_FI_DEV_INFOROM_IMAGE_VERSION, gonvml.Device.GetInforomImageVersion),
		text("nvmlDeviceGetVbiosVersion", DCGM_FI_DEV_VBIOS_VERSION, gonvml.Device.GetVbiosVersion),
	}
}

// text returns the source of a text. call is the function of NVML.
func text(symbol string, f Field, call func(gonvml.Device) (string, gonvml.Return)) textSource {
	return textSource{f, symbol, func(d nvml.Device) (string, error) { return nvml.Get(d, symbol, call) }}
}

func inforom(f Field, object gonvml.InforomObject) textSource {
	return text("nvmlDeviceGetInforomVersion", f, func(d gonvml.Device) (string, gonvml.Return) { return d.GetInforomVersion(object) })
}

// Source is the source of a field's value: the function of NVML, and the number of the value or
// metric. Call is "" for a field that NVML does not have.
type Source struct {
	Call string
	// ID is the number of a field value or of a GPM metric, 0 if the call has none.
	ID int
	// GPM says that the GPU needs GPM, which Hopper and later GPUs have.
	GPM bool
	// Text says that the value is text.
	Text bool
	// Static says that the value does not change while the driver runs.
	Static bool
}

// SourceOf returns the source of a field's value, and false if NVML does not have the value.
func SourceOf(f Field) (Source, bool) {
	for _, g := range getters() {
		if slices.Contains(g.fields, f) {
			return Source{Call: g.symbol, Static: g.static}, true
		}
	}
	if slices.Contains(memoryFields(), f) {
		return Source{Call: symMemory}, true
	}
	for _, n := range fieldValues() {
		if n.field == f {
			return Source{Call: symFieldValues, ID: int(n.id)}, true
		}
	}
	for _, u := range units() {
		if u.field == f {
			return Source{Call: symGPM, ID: int(u.id), GPM: true}, true
		}
	}
	for _, t := range texts() {
		if t.field == f {
			return Source{Call: t.symbol, Text: true}, true
		}
	}
	for _, l := range linkRates() {
		if f == l.megabytes || f == l.bytes {
			return Source{Call: symFieldValues, ID: gonvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX}, true
		}
	}
	return Source{}, false
}
