/* system.c: versions and error strings. Kind: simulated. */
#include "session.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	struct sim_driver driver;

	ENTER(nvmlSystemGetDriverVersion);
	sim_read_driver(session_sim(), &driver);
	return copy_string(version, length, driver.version);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	struct sim_driver driver;

	ENTER(nvmlSystemGetNVMLVersion);
	sim_read_driver(session_sim(), &driver);
	return copy_string(version, length, driver.nvml_version);
}

static nvmlReturn_t cuda_version(int *version)
{
	struct sim_driver driver;

	REQUIRE(version != NULL);
	sim_read_driver(session_sim(), &driver);
	*version = (int)driver.cuda_version;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	ENTER(nvmlSystemGetCudaDriverVersion);
	return cuda_version(version);
}

/* The second version calls libcuda.so.1, which the process must find by this name. If libcuda.so.1 is
 * missing, driver 580 returns NOT_FOUND. */
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	ENTER(nvmlSystemGetCudaDriverVersion_v2);
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY);
	if (cuda == NULL)
		return NVML_ERROR_NOT_FOUND;
	dlclose(cuda);
	return cuda_version(version);
}

/* Kind: real. */
EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[64], exe[1024];

	ENTER(nvmlSystemGetProcessName);
	REQUIRE(name != NULL && length > 0);
	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	if (n < 0)
		return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
	exe[n] = '\0';
	snprintf(name, length, "%s", exe);
	return NVML_SUCCESS;
}

/* Kind: real. */
EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS: return "Success";
	case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
	case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
	case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
	case NVML_ERROR_NOT_FOUND: return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
	case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
	case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT: return "Timeout";
	case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
	case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
	case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
	case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
	case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
	case NVML_ERROR_RESET_REQUIRED: return "GPU requires restart";
	case NVML_ERROR_OPERATING_SYSTEM: return "The operating system has blocked the request.";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
	case NVML_ERROR_IN_USE: return "In use by another client";
	case NVML_ERROR_MEMORY: return "Insufficient Memory";
	case NVML_ERROR_NO_DATA: return "No data";
	case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: return "vGPU operation not supported while ECC is enabled";
	case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
	case NVML_ERROR_FREQ_NOT_SUPPORTED: return "Frequency not supported";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
	case NVML_ERROR_DEPRECATED: return "Deprecated";
	case NVML_ERROR_NOT_READY: return "Not ready";
	case NVML_ERROR_GPU_NOT_FOUND: return "No GPUs found";
	case NVML_ERROR_INVALID_STATE: return "Invalid state";
	case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: return "Reset type not supported";
	case NVML_ERROR_UNKNOWN: return "Unknown Error";
	}
	return "Unknown Error";
}
