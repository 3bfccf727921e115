/* nvlink_counter.c: bytes and errors of NVLinks. Kind: simulated. */
#include "counter.h"

#define ALL_LINKS 0xffffffffu /* nvml.h: "A scopeId of UINT_MAX" */

#define NVLINK_5 NVML_NVLINK_VERSION_5_0

/* speed returns the bandwidth of a link in MB/s, as nvidia-smi prints it. It depends
 * on the NVLink version. */
static unsigned int speed(const struct sim_gpu *gpu)
{
	switch (gpu->nvlink_version) {
	case NVML_NVLINK_VERSION_3_0:
	case NVML_NVLINK_VERSION_3_1:
		return 25000;
	case NVML_NVLINK_VERSION_4_0:
		return 26562;
	default:
		return 50000;
	}
}

/* bytes adds up the bytes of the links in a scope. */
static nvmlReturn_t bytes(const struct sim_telemetry *t, unsigned int link, int direction, unsigned long long *sum)
{
	REQUIRE(link < t->gpu.links || link == ALL_LINKS);
	*sum = 0;
	for (uint32_t i = 0; i < t->gpu.links; i++)
		*sum += link == i || link == ALL_LINKS ? t->counters.link[i][direction].bytes : 0;
	return NVML_SUCCESS;
}

/* field_bytes returns the bytes of the links in the unit of a field: KiB or, on
 * NVLink 5, also bytes. */
static nvmlReturn_t field_bytes(const struct sim_telemetry *t, int direction, unsigned int unit, nvmlFieldValue_t *value)
{
	unsigned long long sum;
	nvmlReturn_t r = bytes(t, value->scopeId, direction, &sum);

	return r == NVML_SUCCESS ? field_ull(value, sum / unit) : r;
}

/* field_errors adds up the errors of the links in a scope. */
static nvmlReturn_t field_errors(const struct sim_telemetry *t, unsigned int link, int kind, nvmlFieldValue_t *value)
{
	unsigned long long sum = 0;

	REQUIRE(link < t->gpu.links || link == ALL_LINKS);
	for (uint32_t i = 0; i < t->gpu.links; i++)
		sum += link == i || link == ALL_LINKS ? t->counters.link_error[i][kind] : 0;
	return field_ull(value, sum);
}

/* field_link_errors returns the errors of one link, which the GPU may not have. */
static nvmlReturn_t field_link_errors(const struct sim_telemetry *t, unsigned int link, int kind, nvmlFieldValue_t *value)
{
	return link < t->gpu.links ? field_errors(t, link, kind, value) : NVML_ERROR_NOT_SUPPORTED;
}

/* The fields for one kind of error: the fields of the links 0 to 5 begin with
 * first, the field of all links is total, and the fields of the links 6 to 11 begin
 * with seventh. */
static const struct {
	unsigned int first, total, seventh;
	int kind;
} lanes[] = {
	{NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
	 NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6, NVML_NVLINK_ERROR_DL_CRC_FLIT},
	{NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
	 NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6, NVML_NVLINK_ERROR_DL_CRC_DATA},
	{NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
	 NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6, NVML_NVLINK_ERROR_DL_REPLAY},
	{NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
	 NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6, NVML_NVLINK_ERROR_DL_RECOVERY},
	{NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L0, NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL,
	 NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_L6, NVML_NVLINK_ERROR_DL_ECC_DATA},
};

static nvmlReturn_t field_lane(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
		if (id == lanes[i].total)
			return field_errors(t, ALL_LINKS, lanes[i].kind, value);
		if (id >= lanes[i].first && id < lanes[i].first + 6)
			return field_link_errors(t, id - lanes[i].first, lanes[i].kind, value);
		if (id >= lanes[i].seventh && id < lanes[i].seventh + 6)
			return field_link_errors(t, id - lanes[i].seventh + 6, lanes[i].kind, value);
	}
	return NVML_ERROR_NOT_SUPPORTED;
}

/* state returns the state of the link in the scope of a field. */
static nvmlReturn_t state(const struct sim_gpu *gpu, unsigned int id, nvmlFieldValue_t *value)
{
	REQUIRE(value->scopeId < gpu->links);
	bool up = gpu->link[value->scopeId].up;
	switch (id) {
	case NVML_FI_DEV_NVLINK_GET_SPEED:
		return field_uint(value, up ? speed(gpu) : 0);
	case NVML_FI_DEV_NVLINK_GET_VERSION:
		return field_uint(value, gpu->nvlink_version);
	default:
		return field_uint(value, up ? NVML_NVLINK_STATE_ACTIVE : NVML_NVLINK_STATE_INACTIVE);
	}
}

/* dl returns the counters that nvml.h calls "unsupported for Blackwell+". */
static nvmlReturn_t dl(const struct sim_telemetry *t, int kind, nvmlFieldValue_t *value)
{
	return t->gpu.nvlink_version < NVLINK_5 ? field_errors(t, value->scopeId, kind, value) : NVML_ERROR_NOT_SUPPORTED;
}

/* five returns the counters of NVLink 5. */
static nvmlReturn_t five(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	if (t->gpu.nvlink_version < NVLINK_5)
		return NVML_ERROR_NOT_SUPPORTED;
	switch (id) {
	case NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES:
		return field_bytes(t, 0, 1, value);
	case NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES:
		return field_bytes(t, 1, 1, value);
	case NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS:
		return field_errors(t, value->scopeId, NVML_NVLINK_ERROR_DL_CRC_DATA, value);
	case NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS:
	case NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS:
		return field_errors(t, value->scopeId, NVML_NVLINK_ERROR_DL_RECOVERY, value);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

nvmlReturn_t field_link(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	if (t->gpu.links == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	switch (id) {
	case NVML_FI_DEV_NVLINK_LINK_COUNT:
		return field_uint(value, t->gpu.links);
	case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
		return field_uint(value, speed(&t->gpu));
	case NVML_FI_DEV_NVLINK_GET_SPEED:
	case NVML_FI_DEV_NVLINK_GET_STATE:
	case NVML_FI_DEV_NVLINK_GET_VERSION:
		return state(&t->gpu, id, value);
	case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
		return field_bytes(t, 0, 1024, value);
	case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
		return field_bytes(t, 1, 1024, value);
	case NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY:
		return dl(t, NVML_NVLINK_ERROR_DL_REPLAY, value);
	case NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY:
		return dl(t, NVML_NVLINK_ERROR_DL_RECOVERY, value);
	case NVML_FI_DEV_NVLINK_ERROR_DL_CRC:
		return dl(t, NVML_NVLINK_ERROR_DL_CRC_FLIT, value);
	default:
		return id >= NVML_FI_DEV_NVLINK_COUNT_XMIT_PACKETS ? five(t, id, value) : field_lane(t, id, value);
	}
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
						    nvmlNvLinkErrorCounter_t counter, unsigned long long *value)
{
	ENTER_COUNTERS(nvmlDeviceGetNvLinkErrorCounter, device, t);
	if (t.gpu.links == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	REQUIRE(link < t.gpu.links && counter < NVML_NVLINK_ERROR_COUNT && value != NULL);
	*value = t.counters.link_error[link][counter];
	return NVML_SUCCESS;
}
