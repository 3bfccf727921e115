/* cuda_device.c: properties of devices. Kind: static. */
#include "cuda_driver.h"

#include <stdio.h>
#include <string.h>

/* Kind: simulated. */
EXPORT CUresult cuDeviceGetCount(int *count)
{
	ENTER(cuDeviceGetCount);
	REQUIRE(count != NULL);
	*count = cuda_device_count();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER(cuDeviceGet);
	REQUIRE(device != NULL);
	if (cuda_device(ordinal) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

static CUresult describe(CUdevice ordinal, struct seen *seen)
{
	struct device *device = cuda_device(ordinal);

	return device != NULL ? cuda_inspect(device, seen) : CUDA_ERROR_INVALID_DEVICE;
}

#define ENTER_DEVICE(name, device, seen)                                       \
	struct seen seen;                                                      \
	ENTER(name);                                                           \
	TRY(describe(device, &seen))

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	ENTER_DEVICE(cuDeviceGetName, device, seen);
	REQUIRE(name != NULL && length > 0);
	snprintf(name, (size_t)length, "%s", seen.name);
	return CUDA_SUCCESS;
}

/* uuid_bytes reads "GPU-" or "MIG-" and 32 hexadecimal digits with dashes. */
static CUresult uuid_bytes(const char *text, CUuuid *uuid)
{
	unsigned int byte;
	int n;

	text = strchr(text, '-');
	for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
		while (text != NULL && *text == '-')
			text++;
		if (text == NULL || sscanf(text, "%2x%n", &byte, &n) != 1 || n != 2)
			return CUDA_ERROR_UNKNOWN;
		uuid->bytes[i] = (char)byte;
		text += n;
	}
	return CUDA_SUCCESS;
}

/* The first version always returns the UUID of the GPU. The second version
 * returns the UUID of a MIG device. */
EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	ENTER_DEVICE(cuDeviceGetUuid, device, seen);
	REQUIRE(uuid != NULL);
	return uuid_bytes(seen.gpu.uuid, uuid);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	ENTER_DEVICE(cuDeviceGetUuid_v2, device, seen);
	REQUIRE(uuid != NULL);
	return uuid_bytes(seen.uuid, uuid);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	ENTER_DEVICE(cuDeviceTotalMem_v2, device, seen);
	REQUIRE(bytes != NULL);
	*bytes = seen.memory;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	ENTER_DEVICE(cuDeviceGetPCIBusId, device, seen);
	REQUIRE(id != NULL && length >= 13);
	snprintf(id, (size_t)length, "%04x:%02x:%02x.0", seen.gpu.domain & 0xffff, seen.gpu.bus & 0xff,
		 seen.gpu.device & 0xff);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	ENTER_DEVICE(cuDeviceComputeCapability, device, seen);
	REQUIRE(major != NULL && minor != NULL);
	*major = (int)seen.gpu.cc_major;
	*minor = (int)seen.gpu.cc_minor;
	return CUDA_SUCCESS;
}

/* attribute returns the value of an attribute, by its number in
 * CUdevice_attribute. */
static CUresult attribute(const struct seen *seen, int which, int *value)
{
	const struct sim_gpu *gpu = &seen->gpu;

	switch (which) {
	case 1: case 2: case 3: *value = 1024; break; /* threads per block; x, y */
	case 4: *value = 64; break;                   /* block z */
	case 5: *value = 2147483647; break;           /* grid x */
	case 6: case 7: *value = 65535; break;        /* grid y, z */
	case 10: *value = 32; break;                  /* warp size */
	case 13: *value = (int)gpu->clock_max[1] * 1000; break;
	case 16: *value = (int)seen->sms; break;
	case 17: *value = 0; break; /* kernel time-out */
	case 18: *value = 0; break; /* integrated */
	case 20: *value = (int)(seen->ci.generation != 0 ? seen->ci.compute_mode : gpu->compute_mode); break;
	case 33: *value = (int)gpu->bus; break;
	case 34: *value = (int)gpu->device; break;
	case 36: *value = (int)gpu->clock_max[2] * 1000; break;
	case 41: *value = 1; break; /* unified addressing */
	case 50: *value = (int)gpu->domain; break;
	case 75: *value = (int)gpu->cc_major; break;
	case 76: *value = (int)gpu->cc_minor; break;
	default: return which > 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
	ENTER_DEVICE(cuDeviceGetAttribute, device, seen);
	REQUIRE(value != NULL);
	return attribute(&seen, which, value);
}
