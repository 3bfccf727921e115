/* Calls about MIG that go-nvml cannot make: missing arguments, arguments of the
 * wrong kind, sizes and versions. The node has an A100 in MIG mode with one
 * 1g.5gb, on which one process runs. The expected results are from nvml.h. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <string.h>

#include "check.h"

static nvmlDevice_t device, mig;
static nvmlGpuInstance_t gi;
static nvmlComputeInstance_t ci;

static void find_what_is_there(void)
{
	nvmlGpuInstanceProfileInfo_t profile;
	unsigned int count = 0;

	CHECK(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
	CHECK(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &mig), NVML_SUCCESS);
	CHECK(nvmlDeviceGetGpuInstanceProfileInfo(device, NVML_GPU_INSTANCE_PROFILE_1_SLICE, &profile), NVML_SUCCESS);
	CHECK(nvmlDeviceGetGpuInstances(device, profile.id, &gi, &count), NVML_SUCCESS);
	CHECK(count, 1);
	CHECK(nvmlGpuInstanceGetComputeInstanceById(gi, 0, &ci), NVML_SUCCESS);
}

static void arguments_are_checked(void)
{
	nvmlGpuInstancePlacement_t placement = {0, 1};
	nvmlGpuInstanceProfileInfo_t profile;
	nvmlReturn_t activation;
	unsigned int n;

	CHECK(nvmlDeviceSetMigMode(device, 2, &activation), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceSetMigMode(device, 1, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMigMode(device, &n, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMaxMigDeviceCount(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceIsMigDeviceHandle(mig, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstanceId(mig, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetAttributes_v2(mig, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstanceProfileInfo(device, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstanceProfileInfo(device, NVML_GPU_INSTANCE_PROFILE_COUNT, &profile),
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstanceRemainingCapacity(device, 19, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceCreateGpuInstance(device, 19, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceCreateGpuInstanceWithPlacement(device, 19, NULL, &gi), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceCreateGpuInstanceWithPlacement(device, 19, &placement, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstances(device, 19, NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstanceById(device, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceGetInfo(gi, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceCreateComputeInstance(gi, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceGetComputeInstanceById(gi, 0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlComputeInstanceGetInfo_v2(ci, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

/* Functions reject handles of another kind, and pointers that are no handles. */
static void handles_are_of_one_kind(void)
{
	nvmlGpuInstanceInfo_t info;
	char name[96];
	unsigned int n;

	CHECK(nvmlDeviceGetName((nvmlDevice_t)gi, name, sizeof(name)), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMinorNumber((nvmlDevice_t)ci, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceGetInfo((nvmlGpuInstance_t)mig, &info), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceGetInfo((nvmlGpuInstance_t)ci, &info), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceGetInfo(NULL, &info), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceDestroy((nvmlGpuInstance_t)name), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlComputeInstanceDestroy((nvmlComputeInstance_t)gi), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetName((nvmlDevice_t)((char *)mig + 1), name, sizeof(name)), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetName(mig, name, 4), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(nvmlDeviceGetName(mig, NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetName(mig, name, sizeof(name)), NVML_SUCCESS);
	CHECK(strcmp(name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"), 0);
}

/* "Can be NULL to discover number of allowed placements." */
static void numbers_can_be_asked_for(void)
{
	nvmlGpuInstancePlacement_t placement[8];
	nvmlComputeInstancePlacement_t part[8];
	unsigned int n = 0;

	CHECK(nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, 14, NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, 14, NULL, &n), NVML_SUCCESS);
	CHECK(n, 3);
	CHECK(nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, 14, placement, &n), NVML_SUCCESS);
	CHECK(placement[2].start, 4);
	CHECK(placement[2].size, 2);
	CHECK(nvmlDeviceGetGpuInstancePossiblePlacements(device, 14, NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 0, NULL, &n), NVML_SUCCESS);
	CHECK(n, 1);
	CHECK(nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 0, part, &n), NVML_SUCCESS);
	CHECK(part[0].size, 1);
	CHECK(nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi, 2, part, &n), NVML_ERROR_NOT_SUPPORTED);
}

static void versions_are_checked(void)
{
	nvmlGpuInstanceProfileInfo_v2_t profile = {.version = 2};
	nvmlComputeInstanceProfileInfo_v2_t part = {0};
	nvmlUUID_t uuid = {.version = 2};
	nvmlDevice_t found;

	CHECK(nvmlDeviceGetGpuInstanceProfileInfoV(device, 0, &profile), NVML_ERROR_INVALID_ARGUMENT);
	profile.version = nvmlGpuInstanceProfileInfo_v2;
	CHECK(nvmlDeviceGetGpuInstanceProfileInfoV(device, 0, &profile), NVML_SUCCESS);
	CHECK(profile.version, nvmlGpuInstanceProfileInfo_v2);
	CHECK(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 0, 0, &part), NVML_ERROR_INVALID_ARGUMENT);
	part.version = nvmlComputeInstanceProfileInfo_v2;
	CHECK(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 0, 0, &part), NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByUUIDV(&uuid, &found), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

/* Old versions of a structure are shorter: nothing is written behind their end. */
static void old_structures_are_not_overrun(void)
{
	nvmlComputeInstanceInfo_t info;
	nvmlDeviceAttributes_t attributes;
	nvmlComputeInstanceProfileInfo_v3_t profile;

	memset(&info, 0x5a, sizeof(info));
	CHECK(nvmlComputeInstanceGetInfo(ci, &info), NVML_SUCCESS);
	CHECK(info.id, 0);
	CHECK(info.placement.size, 0x5a5a5a5a);
	CHECK(info.gpuInstance == gi, 1);
	memset(&attributes, 0x5a, sizeof(attributes));
	CHECK(nvmlDeviceGetAttributes(mig, &attributes), NVML_SUCCESS);
	CHECK(attributes.multiprocessorCount, 14);
	CHECK(attributes.memorySizeMB, 0x5a5a5a5a5a5a5a5a);
	memset(&profile, 0x5a, sizeof(profile));
	profile.version = nvmlComputeInstanceProfileInfo_v2;
	CHECK(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 0, 0, (nvmlComputeInstanceProfileInfo_v2_t *)&profile),
	      NVML_SUCCESS);
	CHECK(profile.capabilities, 0x5a5a5a5a);
}

/* "call this function with *infoCount = 0. The return code will be
 * INSUFFICIENT_SIZE, or SUCCESS if none are running." */
static void processes_fit_the_array(void)
{
	nvmlProcessInfo_v1_t plain[2];
	nvmlProcessInfo_t info[2];
	unsigned int n = 0;

	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(mig, NULL, info), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(mig, &n, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(n, 1);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(mig, &n, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetComputeRunningProcesses_v3(mig, &n, info), NVML_SUCCESS);
	CHECK(info[0].pid, 4711);
	CHECK(info[0].computeInstanceId, 0);
	n = 2;
	memset(plain, 0x5a, sizeof(plain));
	CHECK(nvmlDeviceGetComputeRunningProcesses(mig, &n, plain), NVML_SUCCESS);
	CHECK(n, 1);
	CHECK(plain[0].usedGpuMemory, 1 << 20);
	CHECK(plain[1].pid, 0x5a5a5a5a);
	n = 0;
	CHECK(nvmlDeviceGetGraphicsRunningProcesses_v3(mig, &n, NULL), NVML_SUCCESS);
	CHECK(n, 0);
}

static void handles_end_with_the_session(void)
{
	unsigned int n;

	CHECK(nvmlShutdown(), NVML_SUCCESS);
	CHECK(nvmlDeviceGetGpuInstanceId(mig, &n), NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlInit_v2(), NVML_SUCCESS);
	CHECK(nvmlDeviceGetGpuInstanceId(mig, &n), NVML_ERROR_INVALID_ARGUMENT);
}

int main(void)
{
	CHECK(nvmlInit_v2(), NVML_SUCCESS);
	find_what_is_there();
	arguments_are_checked();
	handles_are_of_one_kind();
	numbers_can_be_asked_for();
	versions_are_checked();
	old_structures_are_not_overrun();
	processes_fit_the_array();
	handles_end_with_the_session();
	return failures != 0;
}
