package telemetry

import (
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// unit is a metric of GPM, multiplied by scale.
type unit struct {
	field Field
	id    gonvml.GpmMetricId
	scale float64
	// whole says that the metric is one of the whole GPU, not of a GPU instance.
	whole bool
}

const (
	percent       = 1e-2
	perSecond     = mebibyte
	symGPM        = "nvmlGpmMetricsGet"
	symGPMSupport = "nvmlGpmQueryDeviceSupport"
)

// units are the metrics of GPM that DCGM has as its profiling fields.
func units() []unit {
	return slices.Concat([]unit{
		{field: GraphicsActive, id: gonvml.GPM_METRIC_GRAPHICS_UTIL, scale: percent},
		{field: 1002, id: gonvml.GPM_METRIC_SM_UTIL, scale: percent},
		{field: 1003, id: gonvml.GPM_METRIC_SM_OCCUPANCY, scale: percent},
		{field: 1004, id: gonvml.GPM_METRIC_ANY_TENSOR_UTIL, scale: percent},
		{field: 1005, id: gonvml.GPM_METRIC_DRAM_BW_UTIL, scale: percent},
		{field: 1006, id: gonvml.GPM_METRIC_FP64_UTIL, scale: percent},
		{field: 1007, id: gonvml.GPM_METRIC_FP32_UTIL, scale: percent},
		{field: 1008, id: gonvml.GPM_METRIC_FP16_UTIL, scale: percent},
		{field: 1009, id: gonvml.GPM_METRIC_PCIE_TX_PER_SEC, scale: perSecond, whole: true},
		{field: 1010, id: gonvml.GPM_METRIC_PCIE_RX_PER_SEC, scale: perSecond, whole: true},
		{field: 1011, id: gonvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, scale: perSecond, whole: true},
		{field: 1012, id: gonvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, scale: perSecond, whole: true},
		{field: 1013, id: gonvml.GPM_METRIC_IMMA_TENSOR_UTIL, scale: percent},
		{field: 1014, id: gonvml.GPM_METRIC_HMMA_TENSOR_UTIL, scale: percent},
		{field: 1015, id: gonvml.GPM_METRIC_DFMA_TENSOR_UTIL, scale: percent},
		{field: 1016, id: gonvml.GPM_METRIC_INTEGER_UTIL, scale: percent},
		{field: 1033, id: gonvml.GPM_METRIC_NVOFA_0_UTIL, scale: percent},
		{field: 1034, id: gonvml.GPM_METRIC_NVOFA_1_UTIL, scale: percent},
	}, several(1017, gonvml.GPM_METRIC_NVDEC_0_UTIL), several(1025, gonvml.GPM_METRIC_NVJPG_0_UTIL))
}

// several returns the units of eight engines of one kind.
func several(first Field, id gonvml.GpmMetricId) []unit {
	out := make([]unit, 8)
	for i := range out {
		out[i] = unit{field: first + Field(i), id: id + gonvml.GpmMetricId(i), scale: percent}
	}
	return out
}
