package telemetry

import (
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// unit says which metric of GPM gives the value of a field. The value is the metric times scale.
type unit struct {
	field Field
	id    gonvml.GpmMetricId
	scale float64
	// whole says that the metric is for the whole GPU, and not for a GPU instance.
	whole bool
}

const (
	percent       = 1e-2
	perSecond     = mebibyte
	symGPM        = "nvmlGpmMetricsGet"
	symGPMSupport = "nvmlGpmQueryDeviceSupport"
)

// units returns the metrics of GPM that correspond to DCGM's profiling fields.
func units() []unit {
	return slices.Concat([]unit{
		{field: DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO, id: gonvml.GPM_METRIC_GRAPHICS_UTIL, scale: percent},
		{field: DCGM_FI_PROF_SM_UTIL_RATIO, id: gonvml.GPM_METRIC_SM_UTIL, scale: percent},
		{field: DCGM_FI_PROF_SM_OCCUPANCY_RATIO, id: gonvml.GPM_METRIC_SM_OCCUPANCY, scale: percent},
		{field: DCGM_FI_PROF_TENSOR_UTIL_RATIO, id: gonvml.GPM_METRIC_ANY_TENSOR_UTIL, scale: percent},
		{field: DCGM_FI_PROF_DRAM_UTIL_RATIO, id: gonvml.GPM_METRIC_DRAM_BW_UTIL, scale: percent},
		{field: DCGM_FI_PROF_FP64_UTIL_RATIO, id: gonvml.GPM_METRIC_FP64_UTIL, scale: percent},
		{field: DCGM_FI_PROF_FP32_UTIL_RATIO, id: gonvml.GPM_METRIC_FP32_UTIL, scale: percent},
		{field: DCGM_FI_PROF_FP16_UTIL_RATIO, id: gonvml.GPM_METRIC_FP16_UTIL, scale: percent},
		{field: DCGM_FI_PROF_PCIE_TX_BYTES, id: gonvml.GPM_METRIC_PCIE_TX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_PCIE_RX_BYTES, id: gonvml.GPM_METRIC_PCIE_RX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_NVLINK_TX_BYTES, id: gonvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_NVLINK_RX_BYTES, id: gonvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_IMMA_UTIL_RATIO, id: gonvml.GPM_METRIC_IMMA_TENSOR_UTIL, scale: percent},
		{field: DCGM_FI_PROF_HMMA_UTIL_RATIO, id: gonvml.GPM_METRIC_HMMA_TENSOR_UTIL, scale: percent},
		{field: DCGM_FI_PROF_DFMA_UTIL_RATIO, id: gonvml.GPM_METRIC_DFMA_TENSOR_UTIL, scale: percent},
		{field: DCGM_FI_PROF_INT_UTIL_RATIO, id: gonvml.GPM_METRIC_INTEGER_UTIL, scale: percent},
		{field: DCGM_FI_PROF_NVOFA_UTIL_0_RATIO, id: gonvml.GPM_METRIC_NVOFA_0_UTIL, scale: percent},
		{field: DCGM_FI_PROF_NVOFA_UTIL_1_RATIO, id: gonvml.GPM_METRIC_NVOFA_1_UTIL, scale: percent},
		{field: DCGM_FI_PROF_C2C_TX_ALL_BYTES, id: gonvml.GPM_METRIC_C2C_TOTAL_TX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_C2C_TX_DATA_BYTES, id: gonvml.GPM_METRIC_C2C_DATA_TX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_C2C_RX_ALL_BYTES, id: gonvml.GPM_METRIC_C2C_TOTAL_RX_PER_SEC, scale: perSecond, whole: true},
		{field: DCGM_FI_PROF_C2C_RX_DATA_BYTES, id: gonvml.GPM_METRIC_C2C_DATA_RX_PER_SEC, scale: perSecond, whole: true},
	}, linkUnits(), eightUnits(DCGM_FI_PROF_NVDEC_UTIL_0_RATIO, gonvml.GPM_METRIC_NVDEC_0_UTIL), eightUnits(DCGM_FI_PROF_NVJPG_UTIL_0_RATIO, gonvml.GPM_METRIC_NVJPG_0_UTIL))
}

// linkUnits returns the units of each NVLink. DCGM has the sent bytes first, GPM the received ones.
func linkUnits() []unit {
	var out []unit
	for i := range mostLinks {
		tx, rx := DCGM_FI_PROF_NVLINK_L0_TX_BYTES+Field(2*i), DCGM_FI_PROF_NVLINK_L0_RX_BYTES+Field(2*i) //nolint:gosec // below 36
		out = append(out,
			unit{field: tx, id: gonvml.GPM_METRIC_NVLINK_L0_TX_PER_SEC + gonvml.GpmMetricId(2*i), scale: perSecond, whole: true},
			unit{field: rx, id: gonvml.GPM_METRIC_NVLINK_L0_RX_PER_SEC + gonvml.GpmMetricId(2*i), scale: perSecond, whole: true})
	}
	return out
}

// eightUnits returns the units of eight engines of one kind.
func eightUnits(first Field, id gonvml.GpmMetricId) []unit {
	out := make([]unit, 8)
	for i := range out {
		out[i] = unit{field: first + Field(i), id: id + gonvml.GpmMetricId(i), scale: percent}
	}
	return out
}
