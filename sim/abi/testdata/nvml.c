/* Calls that go-nvml cannot make: missing or too small arguments, symbols of
 * older versions, and calls outside of a session. The node has two A100. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <string.h>

#include "check.h"

static void outside_of_a_session(void)
{
	unsigned int count;

	CHECK(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlDeviceGetFanSpeed(NULL, &count), NVML_ERROR_UNINITIALIZED);
	CHECK(strcmp(nvmlErrorString(NVML_ERROR_GPU_IS_LOST), "GPU is lost"), 0);
	CHECK(nvmlErrorString((nvmlReturn_t)12345) != NULL, 1);
}

static void sessions_are_counted(void)
{
	unsigned int count;

	CHECK(nvmlInitWithFlags(1u << 31), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlInit(), NVML_SUCCESS);
	CHECK(nvmlInit_v2(), NVML_SUCCESS);
	CHECK(nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS), NVML_SUCCESS);
	for (int i = 0; i < 3; i++) {
		CHECK(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
		CHECK(nvmlShutdown(), NVML_SUCCESS);
	}
	CHECK(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
}

static void arguments_are_checked(nvmlDevice_t device)
{
	unsigned int n;
	char text[96];

	CHECK(nvmlDeviceGetCount_v2(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetHandleByIndex_v2(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetHandleByUUID(NULL, &device), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetUUID(device, NULL, 80), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetUUID(device, text, 40), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(nvmlDeviceGetUUID(device, text, 41), NVML_SUCCESS);
	CHECK(strlen(text), 40);
	CHECK(nvmlSystemGetDriverVersion(text, 3), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(nvmlDeviceGetMinorNumber(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMinorNumber(NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMinorNumber((nvmlDevice_t)((char *)device + 1), &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMinorNumber((nvmlDevice_t)text, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlEventSetWait_v2((nvmlEventSet_t)text, (nvmlEventData_t *)text, 0), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlEventSetFree((nvmlEventSet_t)text), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetClockInfo(device, NVML_CLOCK_COUNT, &n), NVML_ERROR_INVALID_ARGUMENT);
}

static void versions_are_checked(nvmlDevice_t device)
{
	nvmlMemory_v2_t memory = {.version = 2};
	nvmlPciInfoExt_t pci = {.version = nvmlPciInfoExt_v1};
	nvmlDeviceAddressingMode_t mode = {0};

	CHECK(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	memory.version = nvmlMemory_v2;
	CHECK(nvmlDeviceGetMemoryInfo_v2(device, &memory), NVML_SUCCESS);
	CHECK(nvmlDeviceGetPciInfoExt(device, &pci), NVML_SUCCESS);
	CHECK(pci.baseClass << 8 | pci.subClass, 0x0302);
	CHECK(nvmlDeviceGetAddressingMode(device, &mode), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

/* Old versions of a structure are shorter: nothing is written behind their end. */
static void old_structures_are_not_overrun(nvmlDevice_t device)
{
	nvmlPciInfo_t pci;

	memset(&pci, 0x5a, sizeof(pci));
	CHECK(nvmlDeviceGetPciInfo(device, &pci), NVML_SUCCESS);
	CHECK(strcmp(pci.busIdLegacy, "0000:07:00.0"), 0);
	CHECK(pci.pciSubSystemId, 0x5a5a5a5a);
	CHECK(nvmlDeviceGetPciInfo_v2(device, &pci), NVML_SUCCESS);
	CHECK(pci.pciSubSystemId, 0x134f10de);
	CHECK(pci.busId[0], 0x5a);
	CHECK(nvmlDeviceGetPciInfo_v3(device, &pci), NVML_SUCCESS);
	CHECK(strcmp(pci.busId, "00000000:07:00.0"), 0);
}

static void nearest_gpus_fit_the_array(nvmlDevice_t device)
{
	nvmlDevice_t near[4];
	unsigned int count = 0, index = 0;

	CHECK(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_MULTIPLE, &count, NULL), NVML_SUCCESS);
	CHECK(count, 1);
	count = 4;
	CHECK(nvmlDeviceGetTopologyNearestGpus(device, NVML_TOPOLOGY_MULTIPLE, &count, near), NVML_SUCCESS);
	CHECK(count, 1);
	CHECK(nvmlDeviceGetIndex(near[0], &index), NVML_SUCCESS);
	CHECK(index, 1);
}

static void samples_are_checked(nvmlDevice_t device)
{
	static nvmlGpmMetricsGet_t get; /* too large for the stack */
	nvmlGpmSupport_t support = {.version = 2};
	char text[96] = "";

	get.version = 2;
	get.numMetrics = 1;
	CHECK(nvmlGpmSampleAlloc(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpmSampleAlloc(&get.sample1), NVML_SUCCESS);
	CHECK(nvmlGpmSampleAlloc(&get.sample2), NVML_SUCCESS);
	CHECK(nvmlGpmSampleGet(device, get.sample1), NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlGpmMetricsGet(&get), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	get.version = NVML_GPM_METRICS_GET_VERSION;
	CHECK(nvmlGpmMetricsGet(&get), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpmMetricsGet(NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpmSampleFree(get.sample1), NVML_SUCCESS);
	CHECK(nvmlGpmSampleFree(get.sample1), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpmSampleFree((nvmlGpmSample_t)text), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpmSampleFree(get.sample2), NVML_SUCCESS);
	CHECK(nvmlGpmQueryDeviceSupport(device, &support), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(nvmlGpmQueryDeviceSupport(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void telemetry_is_checked(nvmlDevice_t device)
{
	nvmlMarginTemperature_t margin = {.version = 1};
	nvmlFieldValue_t power = {.fieldId = NVML_FI_DEV_POWER_INSTANT, .scopeId = 3};
	unsigned long long n;
	char text[4];

	CHECK(nvmlDeviceGetMarginTemperature(device, &margin), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(nvmlDeviceGetFieldValues(device, 0, &power), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetFieldValues(device, 1, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetFieldValues(device, 1, &power), NVML_SUCCESS);
	CHECK(power.nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetTotalEnergyConsumption(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetTotalEnergyConsumption(NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetTotalEccErrors(device, NVML_MEMORY_ERROR_TYPE_COUNT, NVML_VOLATILE_ECC, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetTotalEccErrors(device, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_ECC_COUNTER_TYPE_COUNT, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetNvLinkErrorCounter(device, 0, NVML_NVLINK_ERROR_COUNT, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetInforomVersion(device, NVML_INFOROM_COUNT, text, 4), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetInforomVersion(device, NVML_INFOROM_ECC, text, 4), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(nvmlDeviceGetInforomVersion(device, NVML_INFOROM_OEM, text, 4), NVML_SUCCESS);
	CHECK(nvmlDeviceGetPcieThroughput(device, NVML_PCIE_UTIL_COUNT, (unsigned int *)&n), NVML_ERROR_INVALID_ARGUMENT);
}

int main(void)
{
	nvmlDevice_t device;

	outside_of_a_session();
	sessions_are_counted();
	CHECK(nvmlInit_v2(), NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
	arguments_are_checked(device);
	versions_are_checked(device);
	old_structures_are_not_overrun(device);
	nearest_gpus_fit_the_array(device);
	samples_are_checked(device);
	telemetry_is_checked(device);
	return failures != 0;
}
