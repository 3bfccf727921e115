/* telemetry.c: memory, temperature, limits of power, clocks and utilization, from
 * the state. Kind: simulated. */
#include "mig.h"
#include "process.h"

GET_KNOWN(nvmlDeviceGetPowerManagementLimit, gpu.power_limit)
GET_KNOWN(nvmlDeviceGetEnforcedPowerLimit, gpu.power_limit)

/* Kind: static. */
GET_KNOWN(nvmlDeviceGetPowerManagementDefaultLimit, gpu.power_max)
GET(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
GET_KNOWN(nvmlDeviceGetCurrPcieLinkGeneration, gpu.pcie_gen)
GET_KNOWN(nvmlDeviceGetMaxPcieLinkGeneration, gpu.pcie_gen)
GET(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, gpu.pcie_width)
GET(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, gpu.pcie_width)

/* memory_of returns the total and the used memory of a GPU or a MIG device.
 * nvml.h: for a GPU in MIG mode, the result is "aggregate information, only if the
 * caller has appropriate privileges". The compute instances of a GPU instance
 * share its memory. */
static nvmlReturn_t memory_of(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct mig_view view;
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : mig_view_gpu(device, &view);

	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(mig || !view.mig.mode || capability_monitor());
	struct sim_scope scope = {mig_ref(&view.gpu), mig ? view.gi->id : SIM_NO_INSTANCE, SIM_NO_INSTANCE};
	memory->total = mig ? (uint64_t)view.gi_profile->memory_mib << 20 : view.gpu.memory_total;
	memory->reserved = mig ? 0 : view.gpu.memory_reserved;
	memory->used = processes_memory(scope) + (mig ? 0 : view.gpu.memory_used);
	if (memory->used > memory->total - memory->reserved)
		memory->used = memory->total - memory->reserved;
	memory->free = memory->total - memory->reserved - memory->used;
	return NVML_SUCCESS;
}

/* The first version counts the memory that the driver reserves as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlMemory_v2_t m;

	ENTER(nvmlDeviceGetMemoryInfo);
	REQUIRE(memory != NULL);
	nvmlReturn_t r = memory_of(device, &m);
	if (r == NVML_SUCCESS)
		*memory = (nvmlMemory_t){.total = m.total, .used = m.reserved + m.used, .free = m.free};
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	ENTER(nvmlDeviceGetMemoryInfo_v2);
	REQUIRE(memory != NULL);
	REQUIRE_VERSION(memory->version, nvmlMemory_v2);
	return memory_of(device, memory);
}

/* nvml.h has the same rules for BAR1 as for memory. The BAR1 of a MIG device is
 * proportional to its memory slices. */
EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
	struct mig_view view;

	ENTER(nvmlDeviceGetBAR1MemoryInfo);
	REQUIRE(memory != NULL);
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : mig_view_gpu(device, &view);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(mig || !view.mig.mode || capability_monitor());
	memory->bar1Total = mig ? view.gpu.bar1_total / view.board->memory_slices * view.gi->size : view.gpu.bar1_total;
	memory->bar1Used = mig ? 0 : view.gpu.bar1_used;
	memory->bar1Free = memory->bar1Total - memory->bar1Used;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
					     unsigned int *temperature)
{
	ENTER_DEVICE(nvmlDeviceGetTemperature, device, gpu);
	REQUIRE(sensor == NVML_TEMPERATURE_GPU && temperature != NULL);
	*temperature = gpu.temperature;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
	ENTER_DEVICE(nvmlDeviceGetTemperatureV, device, gpu);
	REQUIRE(temperature != NULL);
	REQUIRE_VERSION(temperature->version, nvmlTemperature_v1);
	REQUIRE(temperature->sensorType == NVML_TEMPERATURE_GPU);
	temperature->temperature = (int)gpu.temperature;
	return NVML_SUCCESS;
}

/* threshold returns a limit in °C; 0: the board does not have it. */
static unsigned int threshold(const struct sim_gpu *gpu, nvmlTemperatureThresholds_t type)
{
	switch (type) {
	case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
		return gpu->limit_shutdown;
	case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
		return gpu->limit_slowdown;
	case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
		return gpu->limit_memory;
	case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
		return gpu->limit_gpu;
	default:
		return 0;
	}
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t type,
						      unsigned int *temperature)
{
	ENTER_DEVICE(nvmlDeviceGetTemperatureThreshold, device, gpu);
	REQUIRE(type < NVML_TEMPERATURE_THRESHOLD_COUNT && temperature != NULL);
	if (threshold(&gpu, type) == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*temperature = threshold(&gpu, type);
	return NVML_SUCCESS;
}

/* The margin is what nvidia-smi prints as "GPU T.Limit Temp", on Ada and later. */
EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
	ENTER_DEVICE(nvmlDeviceGetMarginTemperature, device, gpu);
	REQUIRE(margin != NULL);
	REQUIRE_VERSION(margin->version, nvmlMarginTemperature_v1);
	if (gpu.architecture < NVML_DEVICE_ARCH_ADA || gpu.limit_gpu == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	margin->marginTemperature = (int)gpu.limit_gpu - (int)gpu.temperature;
	return NVML_SUCCESS;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min,
								 unsigned int *max)
{
	ENTER_DEVICE(nvmlDeviceGetPowerManagementLimitConstraints, device, gpu);
	REQUIRE(min != NULL && max != NULL);
	if (gpu.power_min == 0 || gpu.power_max == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*min = gpu.power_min;
	*max = gpu.power_max;
	return NVML_SUCCESS;
}

/* nvml.h: "On MIG-enabled GPUs, querying device utilization rates is not
 * currently supported." */
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	ENTER_VIEW(nvmlDeviceGetUtilizationRates, mig_view_gpu, device, view);
	REQUIRE(utilization != NULL);
	if (view.mig.mode)
		return NVML_ERROR_NOT_SUPPORTED;
	utilization->gpu = view.gpu.active[SIM_ACTIVE_GPU];
	utilization->memory = view.gpu.active[SIM_ACTIVE_MEMORY];
	return NVML_SUCCESS;
}

/* The time over which NVML averages the utilization of an engine, in us. */
#define SAMPLING_PERIOD_US 167000

/* nvml.h, for each engine: "On MIG-enabled GPUs, querying … utilization is not
 * currently supported." */
#define UTILIZATION(name, activity)                                            \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *utilization, unsigned int *period) \
	{                                                                      \
		ENTER_VIEW(name, mig_view_gpu, device, view);                  \
		REQUIRE(utilization != NULL && period != NULL);                \
		if (view.mig.mode)                                             \
			return NVML_ERROR_NOT_SUPPORTED;                       \
		*utilization = view.gpu.active[activity];                      \
		*period = SAMPLING_PERIOD_US;                                  \
		return NVML_SUCCESS;                                           \
	}

UTILIZATION(nvmlDeviceGetEncoderUtilization, SIM_ACTIVE_ENCODER)
UTILIZATION(nvmlDeviceGetDecoderUtilization, SIM_ACTIVE_DECODER)
UTILIZATION(nvmlDeviceGetJpgUtilization, SIM_ACTIVE_JPEG)
UTILIZATION(nvmlDeviceGetOfaUtilization, SIM_ACTIVE_OFA)

/* current returns the clock of this moment. If the model does not know the clocks,
 * it is 0 until it is set. */
static nvmlReturn_t current(const struct sim_gpu *gpu, nvmlClockType_t type, unsigned int *clock)
{
	if (gpu->clock_max[type] == 0)
		return known_figure(gpu->clock[type], clock);
	*clock = gpu->clock[type];
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetClockInfo, device, gpu);
	REQUIRE(type < SIM_CLOCKS && clock != NULL);
	return current(&gpu, type, clock);
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetMaxClockInfo, device, gpu);
	REQUIRE(type < SIM_CLOCKS && clock != NULL);
	return known_figure(gpu.clock_max[type], clock);
}

/* application_clock returns the application clock of graphics or memory, the two
 * kinds that nvidia-smi shows. It is not set, so it is the highest clock. */
static nvmlReturn_t application_clock(const struct sim_gpu *gpu, nvmlClockType_t type, unsigned int *clock)
{
	REQUIRE(type < SIM_CLOCKS && clock != NULL);
	if (type == NVML_CLOCK_VIDEO)
		return NVML_ERROR_NOT_SUPPORTED;
	return known_figure(gpu->clock_max[type], clock);
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetApplicationsClock, device, gpu);
	return application_clock(&gpu, type, clock);
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetDefaultApplicationsClock, device, gpu);
	return application_clock(&gpu, type, clock);
}

EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetClock, device, gpu);
	REQUIRE(type < SIM_CLOCKS && id < NVML_CLOCK_ID_COUNT && clock != NULL);
	if (id == NVML_CLOCK_ID_APP_CLOCK_TARGET || id == NVML_CLOCK_ID_APP_CLOCK_DEFAULT)
		return application_clock(&gpu, type, clock);
	return id == NVML_CLOCK_ID_CURRENT ? current(&gpu, type, clock) : known_figure(gpu.clock_max[type], clock);
}
