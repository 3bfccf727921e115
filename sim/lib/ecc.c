/* ecc.c: memory errors, and remapped rows of the memory.
 *
 * The boards are Ampere and later. They report DRAM and SRAM as a whole, and
 * remap rows, whereas older boards retire pages. Kind: simulated. */
#include "counter.h"

static bool located(nvmlMemoryLocation_t location, enum sim_ecc_memory *memory)
{
	*memory = location == NVML_MEMORY_LOCATION_SRAM ? SIM_ECC_SRAM : SIM_ECC_DRAM;
	return location == NVML_MEMORY_LOCATION_SRAM || location == NVML_MEMORY_LOCATION_DRAM;
}

/* total adds up the memories. */
static unsigned long long total(const struct sim_telemetry *t, unsigned int counter, unsigned int error)
{
	unsigned long long sum = 0;

	for (int memory = 0; memory < SIM_ECC_MEMORIES; memory++)
		sum += t->counters.ecc[counter][memory][error];
	return sum;
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
	ENTER_DEVICE(nvmlDeviceGetEccMode, device, gpu);
	REQUIRE(current != NULL && pending != NULL);
	*current = (nvmlEnableState_t)gpu.ecc;
	*pending = (nvmlEnableState_t)gpu.ecc_pending;
	return NVML_SUCCESS;
}

/* Kind: static. */
GET(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)

/* nvml.h: "Requires ECC Mode to be enabled." */
EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error,
						nvmlEccCounterType_t counter, unsigned long long *count)
{
	ENTER_COUNTERS(nvmlDeviceGetTotalEccErrors, device, t);
	REQUIRE(error < NVML_MEMORY_ERROR_TYPE_COUNT && counter < NVML_ECC_COUNTER_TYPE_COUNT && count != NULL);
	if (!t.gpu.ecc)
		return NVML_ERROR_NOT_SUPPORTED;
	*count = total(&t, counter, error);
	return NVML_SUCCESS;
}

/* of_instance returns the errors of a MIG device. nvml.h: "Per instance
 * information is currently only supported for non-DRAM uncorrectable volatile
 * errors." The simulator does not count errors by instance, so they are 0. */
static nvmlReturn_t of_instance(nvmlDevice_t device, bool counted, unsigned long long *count)
{
	struct mig_view view;
	nvmlReturn_t r = mig_view_device(device, &view);

	if (r != NVML_SUCCESS)
		return r;
	if (!view.gpu.ecc || !counted)
		return NVML_ERROR_NOT_SUPPORTED;
	*count = 0;
	return NVML_SUCCESS;
}

/* nvml.h: on MIG-enabled GPUs, "querying volatile errors using device handles
 * is currently not supported". */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t error,
						    nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
						    unsigned long long *count)
{
	struct sim_telemetry t;
	enum sim_ecc_memory memory;

	ENTER(nvmlDeviceGetMemoryErrorCounter);
	REQUIRE(error < NVML_MEMORY_ERROR_TYPE_COUNT && counter < NVML_ECC_COUNTER_TYPE_COUNT);
	REQUIRE(location < NVML_MEMORY_LOCATION_COUNT && count != NULL);
	bool known = located(location, &memory);
	if (mig_is_handle(device))
		return of_instance(device, known && memory == SIM_ECC_SRAM && error == NVML_MEMORY_ERROR_TYPE_UNCORRECTED &&
						   counter == NVML_VOLATILE_ECC, count);
	nvmlReturn_t r = counter_read(device, &t);
	if (r != NVML_SUCCESS)
		return r;
	if (!known || !t.gpu.ecc || (t.mig.mode && counter == NVML_VOLATILE_ECC))
		return NVML_ERROR_NOT_SUPPORTED;
	*count = t.counters.ecc[counter][memory][error];
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counter)
{
	ENTER_DEVICE(nvmlDeviceClearEccErrorCounts, device, gpu);
	REQUIRE(counter < NVML_ECC_COUNTER_TYPE_COUNT);
	if (!gpu.ecc)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!capability_administrator() || !sim_writable(session_sim()))
		return NVML_ERROR_NO_PERMISSION;
	return (nvmlReturn_t)sim_clear_ecc(session_sim(), mig_ref(&gpu), counter);
}

/* counted sets the value of a counter that needs ECC. */
static nvmlReturn_t counted(const struct sim_telemetry *t, nvmlFieldValue_t *value, unsigned long long n)
{
	return t->gpu.ecc ? field_ull(value, n) : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t field_dram(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	const uint64_t(*ecc)[SIM_ECC_MEMORIES][SIM_ECC_ERRORS] = t->counters.ecc;

	switch (id) {
	case NVML_FI_DEV_ECC_SBE_VOL_DEV:
		return counted(t, value, ecc[SIM_ECC_VOLATILE][SIM_ECC_DRAM][SIM_ECC_CORRECTED]);
	case NVML_FI_DEV_ECC_DBE_VOL_DEV:
		return counted(t, value, ecc[SIM_ECC_VOLATILE][SIM_ECC_DRAM][SIM_ECC_UNCORRECTED]);
	case NVML_FI_DEV_ECC_SBE_AGG_DEV:
		return counted(t, value, ecc[SIM_ECC_AGGREGATE][SIM_ECC_DRAM][SIM_ECC_CORRECTED]);
	case NVML_FI_DEV_ECC_DBE_AGG_DEV:
		return counted(t, value, ecc[SIM_ECC_AGGREGATE][SIM_ECC_DRAM][SIM_ECC_UNCORRECTED]);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

static nvmlReturn_t field_remapped(const struct sim_gpu *gpu, unsigned int id, nvmlFieldValue_t *value)
{
	if (gpu->architecture < NVML_DEVICE_ARCH_AMPERE)
		return NVML_ERROR_NOT_SUPPORTED;
	switch (id) {
	case NVML_FI_DEV_REMAPPED_COR:
		return field_uint(value, gpu->remap_corrected);
	case NVML_FI_DEV_REMAPPED_UNC:
		return field_uint(value, gpu->remap_uncorrected);
	case NVML_FI_DEV_REMAPPED_PENDING:
		return field_uint(value, gpu->remap_pending);
	case NVML_FI_DEV_REMAPPED_FAILURE:
		return field_uint(value, gpu->remap_failed);
	default: /* NVML_FI_DEV_REMAPPED_ROWS_…_INACTIVE */
		return field_uint(value, 0);
	}
}

nvmlReturn_t field_ecc(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	switch (id) {
	case NVML_FI_DEV_ECC_CURRENT:
		return field_uint(value, t->gpu.ecc);
	case NVML_FI_DEV_ECC_PENDING:
		return field_uint(value, t->gpu.ecc_pending);
	case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
		return counted(t, value, total(t, SIM_ECC_VOLATILE, SIM_ECC_CORRECTED));
	case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
		return counted(t, value, total(t, SIM_ECC_VOLATILE, SIM_ECC_UNCORRECTED));
	case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
		return counted(t, value, total(t, SIM_ECC_AGGREGATE, SIM_ECC_CORRECTED));
	case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
		return counted(t, value, total(t, SIM_ECC_AGGREGATE, SIM_ECC_UNCORRECTED));
	case NVML_FI_DEV_REMAPPED_COR:
	case NVML_FI_DEV_REMAPPED_UNC:
	case NVML_FI_DEV_REMAPPED_PENDING:
	case NVML_FI_DEV_REMAPPED_FAILURE:
	case NVML_FI_DEV_REMAPPED_ROWS_COR_INACTIVE:
	case NVML_FI_DEV_REMAPPED_ROWS_UNC_INACTIVE:
		return field_remapped(&t->gpu, id, value);
	default:
		return field_dram(t, id, value);
	}
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
	*corrected = view.gpu.remap_corrected;
	*uncorrected = view.gpu.remap_uncorrected;
	*pending = view.gpu.remap_pending;
	*failed = view.gpu.remap_failed;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows_v2(nvmlDevice_t device, nvmlRemappedRowsInfo_v2_t *info)
{
	ENTER_VIEW(nvmlDeviceGetRemappedRows_v2, mig_view_gpu, device, view);
	REQUIRE(info != NULL);
	nvmlReturn_t r = remapping(&view);
	if (r == NVML_SUCCESS)
		*info = (nvmlRemappedRowsInfo_v2_t){
			.corrActiveRemaps = view.gpu.remap_corrected,
			.uncActiveRemaps = view.gpu.remap_uncorrected,
			.bPending = view.gpu.remap_pending,
			.bFailureOccurred = view.gpu.remap_failed,
		};
	return r;
}
