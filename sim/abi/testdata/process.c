/* Samples of processes with all engines. go-nvml calls the function without
 * setting a version. Two processes use the first GPU, and none the second. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <string.h>
#include <time.h>

#include "check.h"

static nvmlProcessesUtilizationInfo_t query(nvmlProcessUtilizationInfo_v1_t *array, unsigned int n)
{
	return (nvmlProcessesUtilizationInfo_t){
		.version = nvmlProcessesUtilizationInfo_v1,
		.processSamplesCount = n,
		.procUtilArray = array,
	};
}

static nvmlReturn_t wait_for_samples(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	unsigned int room = info->processSamplesCount;
	nvmlReturn_t r = NVML_ERROR_NOT_FOUND;

	for (int i = 0; i < 10000 && (r == NVML_ERROR_NOT_FOUND || info->processSamplesCount < 2); i++) {
		info->processSamplesCount = room;
		r = nvmlDeviceGetProcessesUtilizationInfo(device, info);
		nanosleep(&pause, NULL);
	}
	return r;
}

static void samples_have_all_engines(nvmlDevice_t device)
{
	nvmlProcessUtilizationInfo_v1_t got[4];
	nvmlProcessesUtilizationInfo_t info = query(got, 4);

	memset(got, 0x5a, sizeof(got));
	CHECK(wait_for_samples(device, &info), NVML_SUCCESS);
	CHECK(info.processSamplesCount, 2);
	const nvmlProcessUtilizationInfo_v1_t *p = got[0].pid == 7001 ? &got[0] : &got[1];
	CHECK(p->pid, 7001);
	CHECK(p->smUtil, 40);
	CHECK(p->memUtil, 30);
	CHECK(p->encUtil, 1);
	CHECK(p->decUtil, 2);
	CHECK(p->jpgUtil, 4);
	CHECK(p->ofaUtil, 5);
	CHECK(got[2].pid, 0x5a5a5a5a);
	info.lastSeenTimeStamp = p->timeStamp + 3600000000ull;
	CHECK(nvmlDeviceGetProcessesUtilizationInfo(device, &info), NVML_ERROR_NOT_FOUND);
}

static void arguments_are_checked(nvmlDevice_t device)
{
	nvmlProcessUtilizationInfo_v1_t one;
	nvmlProcessesUtilizationInfo_t info = query(NULL, 0);

	CHECK(nvmlDeviceGetProcessesUtilizationInfo(device, NULL), NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetProcessesUtilizationInfo(device, &info), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(info.processSamplesCount, 2);
	info = query(&one, 1);
	CHECK(nvmlDeviceGetProcessesUtilizationInfo(device, &info), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(info.processSamplesCount, 2);
	info.version = 1;
	CHECK(nvmlDeviceGetProcessesUtilizationInfo(device, &info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(nvmlDeviceGetProcessUtilization(device, NULL, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
}

int main(void)
{
	nvmlDevice_t device, other;
	unsigned int n = 4;

	CHECK(nvmlInit_v2(), NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(0, &device), NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(1, &other), NVML_SUCCESS);
	samples_have_all_engines(device);
	arguments_are_checked(device);
	CHECK(nvmlDeviceGetProcessUtilization(other, NULL, &n, 0), NVML_ERROR_NOT_FOUND);
	return failures != 0;
}
