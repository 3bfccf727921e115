/* gpm_metric.c: metrics of GPM. */
#include "gpm.h"

#include <math.h>

/* nvml.h: the interval "should be greater than 100ms due to the internal sample
 * refresh rate". */
#define REFRESH_US 100000

#define MIB 1048576.0

/* Metrics 1 to 13. */
static const enum sim_activity activities[] = {
	[NVML_GPM_METRIC_GRAPHICS_UTIL] = SIM_ACTIVE_GPU,
	[NVML_GPM_METRIC_SM_UTIL] = SIM_ACTIVE_SM,
	[NVML_GPM_METRIC_SM_OCCUPANCY] = SIM_ACTIVE_OCCUPANCY,
	[NVML_GPM_METRIC_INTEGER_UTIL] = SIM_ACTIVE_INTEGER,
	[NVML_GPM_METRIC_ANY_TENSOR_UTIL] = SIM_ACTIVE_TENSOR,
	[NVML_GPM_METRIC_DFMA_TENSOR_UTIL] = SIM_ACTIVE_DFMA,
	[NVML_GPM_METRIC_HMMA_TENSOR_UTIL] = SIM_ACTIVE_HMMA,
	[NVML_GPM_METRIC_DMMA_TENSOR_UTIL] = SIM_ACTIVE_DMMA,
	[NVML_GPM_METRIC_IMMA_TENSOR_UTIL] = SIM_ACTIVE_IMMA,
	[NVML_GPM_METRIC_DRAM_BW_UTIL] = SIM_ACTIVE_DRAM,
	[NVML_GPM_METRIC_FP64_UTIL] = SIM_ACTIVE_FP64,
	[NVML_GPM_METRIC_FP32_UTIL] = SIM_ACTIVE_FP32,
	[NVML_GPM_METRIC_FP16_UTIL] = SIM_ACTIVE_FP16,
};

/* rate divides counted by the time between two samples. It is not a number if the
 * samples are too close, or if the GPU was reset between them. */
static double rate(nvmlGpmSample_t from, nvmlGpmSample_t to, double counted)
{
	uint64_t us = to->us - from->us;

	return us < REFRESH_US || counted < 0 ? NAN : counted / (double)us;
}

static nvmlReturn_t percent(enum sim_activity activity, nvmlGpmSample_t from, nvmlGpmSample_t to, double *value)
{
	if (!to->computes)
		return NVML_ERROR_NO_DATA;
	*value = rate(from, to, (double)to->work.active[activity] - (double)from->work.active[activity]);
	return NVML_SUCCESS;
}

/* engine returns the activity of one of several engines, which are equally busy. */
static nvmlReturn_t engine(unsigned int at, uint32_t engines, enum sim_activity activity, nvmlGpmSample_t from,
			   nvmlGpmSample_t to, double *value)
{
	return at < engines ? percent(activity, from, to, value) : NVML_ERROR_NOT_SUPPORTED;
}

static double bytes(const struct sim_flow *from, const struct sim_flow *to)
{
	return ((double)to->bytes - (double)from->bytes) + ((double)to->millionths - (double)from->millionths) / 1e6;
}

enum direction { TX, RX };

/* pcie returns PCIe traffic in MiB/s. GPU instances share PCIe and NVLink, so only
 * the whole GPU has traffic. */
static nvmlReturn_t pcie(enum direction direction, nvmlGpmSample_t from, nvmlGpmSample_t to, double *value)
{
	if (to->gi != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*value = rate(from, to, bytes(&from->pcie[direction], &to->pcie[direction])) * 1e6 / MIB;
	return NVML_SUCCESS;
}

/* links returns the traffic of n links, beginning with the link first. */
static nvmlReturn_t links(uint32_t first, uint32_t n, enum direction direction, nvmlGpmSample_t from, nvmlGpmSample_t to,
			  double *value)
{
	double sum = 0;

	if (to->gi != 0 || n == 0 || first + n > to->links)
		return NVML_ERROR_NOT_SUPPORTED;
	for (uint32_t i = first; i < first + n; i++)
		sum += bytes(&from->link[i][direction], &to->link[i][direction]);
	*value = rate(from, to, sum) * 1e6 / MIB;
	return NVML_SUCCESS;
}

static bool within(unsigned int id, unsigned int first, unsigned int last)
{
	return id >= first && id <= last;
}

/* nvml.h has two metrics for each link, received and sent. The IDs of the first 18
 * links are consecutive, and so are the IDs of the next 18 links. */
static nvmlReturn_t link_metric(unsigned int id, nvmlGpmSample_t from, nvmlGpmSample_t to, double *value)
{
	unsigned int at;

	if (id == NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC || id == NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC)
		return links(0, to->links, id == NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC ? RX : TX, from, to, value);
	if (within(id, NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC, NVML_GPM_METRIC_NVLINK_L17_TX_PER_SEC))
		at = id - NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC;
	else if (within(id, NVML_GPM_METRIC_NVLINK_L18_RX_PER_SEC, NVML_GPM_METRIC_NVLINK_L35_TX_PER_SEC))
		at = id - NVML_GPM_METRIC_NVLINK_L18_RX_PER_SEC + 2 * 18;
	else
		return NVML_ERROR_NOT_SUPPORTED;
	return links(at / 2, 1, at % 2 == 0 ? RX : TX, from, to, value);
}

nvmlReturn_t gpm_metric(unsigned int id, nvmlGpmSample_t from, nvmlGpmSample_t to, double *value)
{
	REQUIRE(id != 0 && id < NVML_GPM_METRIC_MAX);
	if (id <= NVML_GPM_METRIC_FP16_UTIL)
		return percent(activities[id], from, to, value);
	if (id == NVML_GPM_METRIC_PCIE_TX_PER_SEC || id == NVML_GPM_METRIC_PCIE_RX_PER_SEC)
		return pcie(id == NVML_GPM_METRIC_PCIE_TX_PER_SEC ? TX : RX, from, to, value);
	if (within(id, NVML_GPM_METRIC_NVDEC_0_UTIL, NVML_GPM_METRIC_NVDEC_7_UTIL))
		return engine(id - NVML_GPM_METRIC_NVDEC_0_UTIL, to->decoders, SIM_ACTIVE_DECODER, from, to, value);
	if (within(id, NVML_GPM_METRIC_NVJPG_0_UTIL, NVML_GPM_METRIC_NVJPG_7_UTIL))
		return engine(id - NVML_GPM_METRIC_NVJPG_0_UTIL, to->jpegs, SIM_ACTIVE_JPEG, from, to, value);
	if (within(id, NVML_GPM_METRIC_NVOFA_0_UTIL, NVML_GPM_METRIC_NVOFA_1_UTIL))
		return engine(id - NVML_GPM_METRIC_NVOFA_0_UTIL, to->ofas, SIM_ACTIVE_OFA, from, to, value);
	if (within(id, NVML_GPM_METRIC_NVENC_0_UTIL, NVML_GPM_METRIC_NVENC_3_UTIL))
		return engine(id - NVML_GPM_METRIC_NVENC_0_UTIL, to->encoders, SIM_ACTIVE_ENCODER, from, to, value);
	return link_metric(id, from, to, value);
}
