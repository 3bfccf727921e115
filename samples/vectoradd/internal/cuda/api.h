// The part of the CUDA driver API that vectoradd calls, bound at run time.
#ifndef OUTRIGGER_CUDA_API_H
#define OUTRIGGER_CUDA_API_H

#include <stddef.h>

typedef int cu_result;
typedef int cu_device;
typedef void *cu_handle; // context, module, function or stream
typedef unsigned long long cu_deviceptr;
typedef struct {
	unsigned char bytes[16];
} cu_uuid;

// CU_SYMBOLS lists every required symbol: X(field, symbol, parameters).
#define CU_SYMBOLS(X) \
	X(init, cuInit, (unsigned int)) \
	X(driver_get_version, cuDriverGetVersion, (int *)) \
	X(get_error_name, cuGetErrorName, (cu_result, const char **)) \
	X(get_error_string, cuGetErrorString, (cu_result, const char **)) \
	X(device_get_count, cuDeviceGetCount, (int *)) \
	X(device_get, cuDeviceGet, (cu_device *, int)) \
	X(device_get_name, cuDeviceGetName, (char *, int, cu_device)) \
	X(device_get_uuid, cuDeviceGetUuid, (cu_uuid *, cu_device)) \
	X(ctx_create, cuCtxCreate_v2, (cu_handle *, unsigned int, cu_device)) \
	X(ctx_destroy, cuCtxDestroy_v2, (cu_handle)) \
	X(ctx_synchronize, cuCtxSynchronize, (void)) \
	X(module_load_data, cuModuleLoadData, (cu_handle *, const void *)) \
	X(module_unload, cuModuleUnload, (cu_handle)) \
	X(module_get_function, cuModuleGetFunction, (cu_handle *, cu_handle, const char *)) \
	X(mem_alloc, cuMemAlloc_v2, (cu_deviceptr *, size_t)) \
	X(mem_free, cuMemFree_v2, (cu_deviceptr)) \
	X(memcpy_htod, cuMemcpyHtoD_v2, (cu_deviceptr, const void *, size_t)) \
	X(memcpy_dtoh, cuMemcpyDtoH_v2, (void *, cu_deviceptr, size_t)) \
	X(device_can_access_peer, cuDeviceCanAccessPeer, (int *, cu_device, cu_device)) \
	X(ctx_enable_peer_access, cuCtxEnablePeerAccess, (cu_handle, unsigned int)) \
	X(mem_alloc_host, cuMemAllocHost_v2, (void **, size_t)) \
	X(mem_free_host, cuMemFreeHost, (void *)) \
	X(memcpy_peer, cuMemcpyPeer, (cu_deviceptr, cu_handle, cu_deviceptr, cu_handle, size_t)) \
	X(launch_kernel, cuLaunchKernel, \
	  (cu_handle, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
	   unsigned int, cu_handle, void **, void **))

#define CU_FIELD(field, symbol, parameters) cu_result(*field) parameters;

// cu_api holds the library and its bound symbols.
typedef struct {
	void *library;
	CU_SYMBOLS(CU_FIELD)
	// Newer version of device_get_uuid that supports MIG devices; may be NULL.
	cu_result (*device_get_uuid_v2)(cu_uuid *, cu_device);
} cu_api;

#undef CU_FIELD

// cu_open binds the library at path. It returns NULL on success. Otherwise it returns
// the reason as a string that the caller frees, and sets *missing to the symbol that
// was not found, or to NULL if the library itself could not be loaded.
char *cu_open(const char *path, cu_api *api, const char **missing);
void cu_close(cu_api *api);

// Go cannot call C function pointers, so it calls these functions.
cu_result cu_init(cu_api *api);
cu_result cu_driver_get_version(cu_api *api, int *version);
const char *cu_error_name(cu_api *api, cu_result result);
const char *cu_error_string(cu_api *api, cu_result result);
cu_result cu_device_get_count(cu_api *api, int *count);
cu_result cu_device_get(cu_api *api, cu_device *device, int ordinal);
cu_result cu_device_get_name(cu_api *api, char *name, int length, cu_device device);
cu_result cu_device_get_uuid(cu_api *api, cu_uuid *uuid, cu_device device);
cu_result cu_ctx_create(cu_api *api, cu_handle *context, cu_device device);
cu_result cu_ctx_destroy(cu_api *api, cu_handle context);
cu_result cu_ctx_synchronize(cu_api *api);
cu_result cu_module_load_data(cu_api *api, cu_handle *module, const void *image);
cu_result cu_module_unload(cu_api *api, cu_handle module);
cu_result cu_module_get_function(cu_api *api, cu_handle *function, cu_handle module, const char *name);
cu_result cu_mem_alloc(cu_api *api, cu_deviceptr *pointer, size_t size);
cu_result cu_mem_free(cu_api *api, cu_deviceptr pointer);
cu_result cu_memcpy_htod(cu_api *api, cu_deviceptr to, const void *from, size_t size);
cu_result cu_memcpy_dtoh(cu_api *api, void *to, cu_deviceptr from, size_t size);
cu_result cu_device_can_access_peer(cu_api *api, int *can, cu_device device, cu_device peer);
cu_result cu_ctx_enable_peer_access(cu_api *api, cu_handle peer);
cu_result cu_mem_alloc_host(cu_api *api, void **host, size_t size);
cu_result cu_mem_free_host(cu_api *api, void *host);
cu_result cu_memcpy_peer(cu_api *api, cu_deviceptr to, cu_handle to_context, cu_deviceptr from,
			 cu_handle from_context, size_t size);
// cu_launch_vectors starts kernel(const float *a, const float *b, float *c, int n).
cu_result cu_launch_vectors(cu_api *api, cu_handle function, unsigned int blocks, unsigned int threads,
			    cu_deviceptr a, cu_deviceptr b, cu_deviceptr c, int n);

#endif
