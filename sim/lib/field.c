/* field.c: values by number. Kind: simulated. */
#include "counter.h"

nvmlReturn_t field_uint(nvmlFieldValue_t *value, unsigned int v)
{
	value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	value->value.uiVal = v;
	return NVML_SUCCESS;
}

nvmlReturn_t field_ull(nvmlFieldValue_t *value, unsigned long long v)
{
	value->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
	value->value.ullVal = v;
	return NVML_SUCCESS;
}

nvmlReturn_t field_int(nvmlFieldValue_t *value, int v)
{
	value->valueType = NVML_VALUE_TYPE_SIGNED_INT;
	value->value.siVal = v;
	return NVML_SUCCESS;
}

/* tlimit returns the distance of a limit from the highest operating temperature.
 * nvml.h: these fields "are supported on Ada and later architectures". */
static nvmlReturn_t tlimit(const struct sim_gpu *gpu, unsigned int limit, nvmlFieldValue_t *value)
{
	if (gpu->architecture < NVML_DEVICE_ARCH_ADA || gpu->limit_gpu == 0 || limit == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	return field_int(value, (int)gpu->limit_gpu - (int)limit);
}

static nvmlReturn_t field_temperature(const struct sim_gpu *gpu, unsigned int id, nvmlFieldValue_t *value)
{
	switch (id) {
	case NVML_FI_DEV_MEMORY_TEMP:
		return gpu->memory_temperature == SIM_NO_TEMPERATURE ? NVML_ERROR_NOT_SUPPORTED
								     : field_uint(value, gpu->memory_temperature);
	case NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT:
		return tlimit(gpu, gpu->limit_shutdown, value);
	case NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT:
		return tlimit(gpu, gpu->limit_slowdown, value);
	case NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT:
		return tlimit(gpu, gpu->limit_gpu, value);
	case NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT: /* 0 from its own limit */
		return tlimit(gpu, gpu->limit_memory != 0 ? gpu->limit_gpu : 0, value);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

/* nvml.h says about the byte counters: "Value can be wrapped". Programs read them
 * as unsigned int. */
static nvmlReturn_t field_pcie(const struct sim_counters *c, unsigned int id, nvmlFieldValue_t *value)
{
	switch (id) {
	case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
		return field_uint(value, (unsigned int)c->pcie_replays);
	case NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER:
		return field_uint(value, 0);
	case NVML_FI_DEV_PCIE_COUNT_TX_BYTES:
		return field_uint(value, (unsigned int)c->pcie[0].bytes);
	case NVML_FI_DEV_PCIE_COUNT_RX_BYTES:
		return field_uint(value, (unsigned int)c->pcie[1].bytes);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

static nvmlReturn_t field_gpu(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	const struct sim_board *board = sim_board(session_sim(), &t->gpu);

	switch (id) {
	case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
		return field_uint(value, t->gpu.recovery);
	case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED:
		return field_uint(value, board != NULL && !board->mode_needs_reset);
	case NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE:
		return field_uint(value, board != NULL);
	case NVML_FI_DEV_C2C_LINK_COUNT:
		return field_uint(value, 0);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

/* field calls the functions of all subjects until one implements the field. */
static nvmlReturn_t field(const struct sim_telemetry *t, nvmlFieldValue_t *value)
{
	unsigned int id = value->fieldId;
	nvmlReturn_t r = id != 0 && id < NVML_FI_MAX ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;

	value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	if (r == NVML_ERROR_NOT_SUPPORTED)
		r = field_gpu(t, id, value);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		r = field_temperature(&t->gpu, id, value);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		r = field_pcie(&t->counters, id, value);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		r = field_power(t, id, value);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		r = field_limited(t, id, value);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		r = field_ecc(t, id, value);
	return r == NVML_ERROR_NOT_SUPPORTED ? field_link(t, id, value) : r;
}

/* nvml.h: each value has a field nvmlReturn with its result. All values are from
 * one moment. */
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	ENTER_COUNTERS(nvmlDeviceGetFieldValues, device, t);
	REQUIRE(values != NULL && count > 0);
	long long now = (long long)counter_now_us();
	for (int i = 0; i < count; i++) {
		values[i].timestamp = now;
		values[i].latencyUsec = 0;
		values[i].nvmlReturn = field(&t, &values[i]);
	}
	return NVML_SUCCESS;
}
