#include "api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

char *cu_open(const char *path, cu_api *api, const char **missing)
{
	memset(api, 0, sizeof *api);
	*missing = NULL;
	api->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!api->library)
		return strdup(dlerror());

#define CU_BIND(field, symbol, parameters) \
	*(void **)&api->field = dlsym(api->library, #symbol); \
	if (!api->field) { \
		char *reason = strdup(dlerror()); \
		*missing = #symbol; \
		cu_close(api); \
		return reason; \
	}
	CU_SYMBOLS(CU_BIND)
#undef CU_BIND

	*(void **)&api->device_get_uuid_v2 = dlsym(api->library, "cuDeviceGetUuid_v2");
	return NULL;
}

void cu_close(cu_api *api)
{
	if (api->library)
		dlclose(api->library);
	memset(api, 0, sizeof *api);
}

cu_result cu_init(cu_api *api)
{
	return api->init(0);
}

cu_result cu_driver_get_version(cu_api *api, int *version)
{
	return api->driver_get_version(version);
}

const char *cu_error_name(cu_api *api, cu_result result)
{
	const char *name = NULL;
	return api->get_error_name(result, &name) == 0 && name ? name : "unknown CUDA error";
}

const char *cu_error_string(cu_api *api, cu_result result)
{
	const char *text = NULL;
	return api->get_error_string(result, &text) == 0 && text ? text : "no description";
}

cu_result cu_device_get_count(cu_api *api, int *count)
{
	return api->device_get_count(count);
}

cu_result cu_device_get(cu_api *api, cu_device *device, int ordinal)
{
	return api->device_get(device, ordinal);
}

cu_result cu_device_get_name(cu_api *api, char *name, int length, cu_device device)
{
	return api->device_get_name(name, length, device);
}

cu_result cu_device_get_uuid(cu_api *api, cu_uuid *uuid, cu_device device)
{
	return api->device_get_uuid_v2 ? api->device_get_uuid_v2(uuid, device) : api->device_get_uuid(uuid, device);
}

cu_result cu_ctx_create(cu_api *api, cu_handle *context, cu_device device)
{
	return api->ctx_create(context, 0, device);
}

cu_result cu_ctx_destroy(cu_api *api, cu_handle context)
{
	return api->ctx_destroy(context);
}

cu_result cu_ctx_synchronize(cu_api *api)
{
	return api->ctx_synchronize();
}

cu_result cu_module_load_data(cu_api *api, cu_handle *module, const void *image)
{
	return api->module_load_data(module, image);
}

cu_result cu_module_unload(cu_api *api, cu_handle module)
{
	return api->module_unload(module);
}

cu_result cu_module_get_function(cu_api *api, cu_handle *function, cu_handle module, const char *name)
{
	return api->module_get_function(function, module, name);
}

cu_result cu_mem_alloc(cu_api *api, cu_deviceptr *pointer, size_t size)
{
	return api->mem_alloc(pointer, size);
}

cu_result cu_mem_free(cu_api *api, cu_deviceptr pointer)
{
	return api->mem_free(pointer);
}

cu_result cu_memcpy_htod(cu_api *api, cu_deviceptr to, const void *from, size_t size)
{
	return api->memcpy_htod(to, from, size);
}

cu_result cu_memcpy_dtoh(cu_api *api, void *to, cu_deviceptr from, size_t size)
{
	return api->memcpy_dtoh(to, from, size);
}

cu_result cu_device_can_access_peer(cu_api *api, int *can, cu_device device, cu_device peer)
{
	return api->device_can_access_peer(can, device, peer);
}

cu_result cu_ctx_enable_peer_access(cu_api *api, cu_handle peer)
{
	return api->ctx_enable_peer_access(peer, 0);
}

cu_result cu_mem_alloc_host(cu_api *api, void **host, size_t size)
{
	return api->mem_alloc_host(host, size);
}

cu_result cu_mem_free_host(cu_api *api, void *host)
{
	return api->mem_free_host(host);
}

cu_result cu_memcpy_peer(cu_api *api, cu_deviceptr to, cu_handle to_context, cu_deviceptr from,
			 cu_handle from_context, size_t size)
{
	return api->memcpy_peer(to, to_context, from, from_context, size);
}

cu_result cu_launch_vectors(cu_api *api, cu_handle function, unsigned int blocks, unsigned int threads,
			    cu_deviceptr a, cu_deviceptr b, cu_deviceptr c, int n)
{
	void *parameters[] = {&a, &b, &c, &n};
	return api->launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL);
}
