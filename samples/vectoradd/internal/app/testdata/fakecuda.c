// A CUDA driver library that computes on the host and fails as the macros define:
//   FAIL_<function>=result  the result of a function, for example -DFAIL_cuInit=100
//   VERSION, DEVICES        what the driver reports
//   KERNEL                  0 correct, 1 last element wrong, 2 writes nothing
//   PEERS, DAMAGED          whether devices reach each other; how many bytes of a copy are lost
//   WITHOUT_LAUNCH          omits cuLaunchKernel
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 13000
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef KERNEL
#define KERNEL 0
#endif
#ifndef FAIL_cuInit
#define FAIL_cuInit 0
#endif
#ifndef FAIL_cuModuleLoadData
#define FAIL_cuModuleLoadData 0
#endif
#ifndef FAIL_cuMemAlloc
#define FAIL_cuMemAlloc 0
#endif
#ifndef FAIL_cuCtxSynchronize
#define FAIL_cuCtxSynchronize 0
#endif
#ifndef PEERS
#define PEERS 1
#endif
#ifndef DAMAGED
#define DAMAGED 0
#endif
#ifndef DEVICE_NAME
#define DEVICE_NAME "Host CPU"
#endif

int cuInit(unsigned int flags) { return FAIL_cuInit; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuGetErrorName(int result, const char **name) { *name = "CUDA_ERROR_FAKE"; return 0; }
int cuGetErrorString(int result, const char **text) { *text = "as the test asked"; return 0; }
int cuDeviceGetCount(int *count) { *count = DEVICES; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "%s", DEVICE_NAME); return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { memset(uuid, 0xa0 + device, 16); return 0; }
int cuCtxCreate_v2(void **context, unsigned int flags, int device) { *context = malloc(1); return 0; }
int cuCtxDestroy_v2(void *context) { free(context); return 0; }
int cuCtxSynchronize(void) { return FAIL_cuCtxSynchronize; }
int cuModuleUnload(void *module) { free(module); return 0; }
int cuMemFree_v2(unsigned long long pointer) { free((void *)pointer); return 0; }

int cuDeviceCanAccessPeer(int *can, int device, int peer) { *can = PEERS; return 0; }
int cuCtxEnablePeerAccess(void *peer, unsigned int flags) { return PEERS ? 0 : 217; }
int cuMemAllocHost_v2(void **host, size_t size) { *host = malloc(size); return 0; }
int cuMemFreeHost(void *host) { free(host); return 0; }

int cuMemcpyPeer(unsigned long long to, void *to_context, unsigned long long from, void *from_context, size_t size)
{
	memcpy((void *)to, (void *)from, size - DAMAGED);
	return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
	if (!FAIL_cuModuleLoadData)
		*module = malloc(1);
	return FAIL_cuModuleLoadData;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	*function = module;
	return strcmp(name, "vectorAdd") ? 500 : 0;
}

int cuMemAlloc_v2(unsigned long long *pointer, size_t size)
{
	if (!FAIL_cuMemAlloc)
		*pointer = (unsigned long long)malloc(size);
	return FAIL_cuMemAlloc;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size)
{
	memcpy((void *)to, from, size);
	return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size)
{
	memcpy(to, (void *)from, size);
	return 0;
}

#ifndef WITHOUT_LAUNCH
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *stream, void **parameters, void **extra)
{
	const float *a = *(const float **)parameters[0], *b = *(const float **)parameters[1];
	float *sum = *(float **)parameters[2];
	int n = *(int *)parameters[3];
	for (int i = 0; i < n && i < (int)(gx * bx) && KERNEL != 2; i++)
		sum[i] = a[i] + b[i] + (KERNEL == 1 && i == n - 1 ? 1e-3f : 0);
	return 0;
}
#endif
