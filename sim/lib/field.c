/* field.c: values by number, and rows of memory that were remapped. */
#include "mig.h"

#include <time.h>

/* link_state answers for the link in the scope of a field. */
static nvmlReturn_t link_state(const struct sim_gpu *gpu, unsigned int link, unsigned int *value)
{
	if (gpu->links == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	REQUIRE(link < gpu->links);
	*value = gpu->link[link].up ? NVML_NVLINK_STATE_ACTIVE : NVML_NVLINK_STATE_INACTIVE;
	return NVML_SUCCESS;
}

/* field returns one value; only those that the state knows. */
static nvmlReturn_t field(const struct mig_view *view, unsigned int id, unsigned int scope, unsigned int *value)
{
	switch (id) {
	case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
		*value = view->gpu.recovery;
		return NVML_SUCCESS;
	case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED:
		*value = view->board != NULL && !view->board->mode_needs_reset;
		return NVML_SUCCESS;
	case NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE:
		*value = view->board != NULL;
		return NVML_SUCCESS;
	case NVML_FI_DEV_NVLINK_GET_STATE:
		return link_state(&view->gpu, scope, value);
	default:
		return id < NVML_FI_MAX ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
	}
}

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

/* nvml.h: whether a value is there is in its own nvmlReturn. */
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	ENTER_VIEW(nvmlDeviceGetFieldValues, mig_view_gpu, device, view);
	REQUIRE(values != NULL && count > 0);
	for (int i = 0; i < count; i++) {
		values[i].timestamp = now_us();
		values[i].latencyUsec = 0;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		values[i].nvmlReturn = field(&view, values[i].fieldId, values[i].scopeId, &values[i].value.uiVal);
	}
	return NVML_SUCCESS;
}

/* nvml.h: "For Ampere or newer", NOT_SUPPORTED "if MIG is enabled". */
static nvmlReturn_t remapping(const struct mig_view *view)
{
	bool supported = view->gpu.architecture >= NVML_DEVICE_ARCH_AMPERE && !view->mig.mode;

	return supported ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
					      unsigned int *pending, unsigned int *failed)
{
	ENTER_VIEW(nvmlDeviceGetRemappedRows, mig_view_gpu, device, view);
	REQUIRE(corrected != NULL && uncorrected != NULL && pending != NULL && failed != NULL);
	nvmlReturn_t r = remapping(&view);
	if (r != NVML_SUCCESS)
		return r;
	*corrected = *uncorrected = *failed = 0;
	*pending = view.gpu.remap_pending;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows_v2(nvmlDevice_t device, nvmlRemappedRowsInfo_v2_t *info)
{
	ENTER_VIEW(nvmlDeviceGetRemappedRows_v2, mig_view_gpu, device, view);
	REQUIRE(info != NULL);
	nvmlReturn_t r = remapping(&view);
	if (r == NVML_SUCCESS)
		*info = (nvmlRemappedRowsInfo_v2_t){.bPending = view.gpu.remap_pending};
	return r;
}
