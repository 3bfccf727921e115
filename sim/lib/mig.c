/* mig.c: Multi-Instance GPU. Every GPU has it switched off; what partitions a
 * GPU is not simulated, and answers NOT_SUPPORTED. */
#include "session.h"

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	ENTER_DEVICE(nvmlDeviceGetMigMode, device, gpu);
	REQUIRE(current != NULL && pending != NULL);
	if (!gpu.mig_capable)
		return NVML_ERROR_NOT_SUPPORTED;
	*current = NVML_DEVICE_MIG_DISABLE;
	*pending = NVML_DEVICE_MIG_DISABLE;
	return NVML_SUCCESS;
}

/* nvml.h: "Returns zero if MIG is not supported or enabled." */
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	ENTER_DEVICE(nvmlDeviceGetMaxMigDeviceCount, device, gpu);
	REQUIRE(count != NULL);
	*count = 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
	ENTER_DEVICE(nvmlDeviceIsMigDeviceHandle, device, gpu);
	REQUIRE(is_mig != NULL);
	*is_mig = 0;
	return NVML_SUCCESS;
}
