/* telemetry.c: memory, temperature, power, clocks and utilisation, as they
 * stand in the state. */
#include "session.h"

GET(nvmlDeviceGetPowerUsage, unsigned int, gpu.power)
GET(nvmlDeviceGetPowerManagementLimit, unsigned int, gpu.power_limit)
GET(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, gpu.power_max)
GET(nvmlDeviceGetEnforcedPowerLimit, unsigned int, gpu.power_limit)
GET(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
GET(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, gpu.pcie_gen)
GET(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, gpu.pcie_gen)
GET(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, gpu.pcie_width)
GET(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, gpu.pcie_width)

/* The first version counts what the driver reserves as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	ENTER_DEVICE(nvmlDeviceGetMemoryInfo, device, gpu);
	REQUIRE(memory != NULL);
	memory->total = gpu.memory_total;
	memory->used = gpu.memory_reserved + gpu.memory_used;
	memory->free = gpu.memory_total - memory->used;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	ENTER_DEVICE(nvmlDeviceGetMemoryInfo_v2, device, gpu);
	REQUIRE(memory != NULL);
	REQUIRE_VERSION(memory->version, nvmlMemory_v2);
	memory->total = gpu.memory_total;
	memory->reserved = gpu.memory_reserved;
	memory->used = gpu.memory_used;
	memory->free = gpu.memory_total - gpu.memory_reserved - gpu.memory_used;
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

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min,
								 unsigned int *max)
{
	ENTER_DEVICE(nvmlDeviceGetPowerManagementLimitConstraints, device, gpu);
	REQUIRE(min != NULL && max != NULL);
	*min = gpu.power_min;
	*max = gpu.power_max;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	ENTER_DEVICE(nvmlDeviceGetUtilizationRates, device, gpu);
	REQUIRE(utilization != NULL);
	utilization->gpu = gpu.util_gpu;
	utilization->memory = gpu.util_memory;
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
