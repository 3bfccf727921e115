/* telemetry.c: memory, temperature, power, clocks and utilisation, as they
 * stand in the state. */
#include "mig.h"
#include "process.h"

GET(nvmlDeviceGetPowerUsage, unsigned int, gpu.power)
GET(nvmlDeviceGetPowerManagementLimit, unsigned int, gpu.power_limit)
GET(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, gpu.power_max)
GET(nvmlDeviceGetEnforcedPowerLimit, unsigned int, gpu.power_limit)
GET(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
GET(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, gpu.pcie_gen)
GET(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, gpu.pcie_gen)
GET(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, gpu.pcie_width)
GET(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, gpu.pcie_width)

/* memory_of fills in the memory of a GPU or a MIG device, and what of it
 * processes have. nvml.h: for a GPU in MIG mode that is "aggregate information,
 * only if the caller has appropriate privileges". The compute instances of a
 * GPU instance share its memory. */
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

/* The first version counts what the driver reserves as used. */
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

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min,
								 unsigned int *max)
{
	ENTER_DEVICE(nvmlDeviceGetPowerManagementLimitConstraints, device, gpu);
	REQUIRE(min != NULL && max != NULL);
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
	utilization->gpu = view.gpu.util_gpu;
	utilization->memory = view.gpu.util_memory;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetClockInfo, device, gpu);
	REQUIRE(type < SIM_CLOCKS && clock != NULL);
	*clock = gpu.clock[type];
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	ENTER_DEVICE(nvmlDeviceGetMaxClockInfo, device, gpu);
	REQUIRE(type < SIM_CLOCKS && clock != NULL);
	*clock = gpu.clock_max[type];
	return NVML_SUCCESS;
}
