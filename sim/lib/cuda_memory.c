/* cuda_memory.c: device memory. A device address stands for host memory, but is
 * never a valid host address, so a program that confuses the two fails. Kind: real. */
#include "cuda_driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Higher than all addresses that a user process can map. */
#define FIRST_ADDRESS 0x1000000000000ull
#define ALIGNMENT 512ull

struct memory {
	struct object object;
	struct device *device;
	CUdeviceptr address;
	size_t size;
	void *host;
};

static CUdeviceptr next_address = FIRST_ADDRESS;

/* memory_at returns the host memory for size bytes at a device address, or NULL
 * if the bytes are not in one allocation. */
void *memory_at(CUdeviceptr address, size_t size)
{
	for (struct memory *m = object_first(KIND_MEMORY); m != NULL; m = object_next(m, KIND_MEMORY)) {
		if (address >= m->address && address - m->address <= m->size &&
		    size <= m->size - (address - m->address))
			return (char *)m->host + (address - m->address);
	}
	return NULL;
}

static void release(struct object *object)
{
	struct memory *m = (struct memory *)object;

	munmap(m->host, m->size);
	m->device->used -= m->size;
	process_update(m->device);
}

/* room returns how much memory of a device this process can still allocate. A client
 * of MPS can have a limit. */
static uint64_t room(const struct device *device, const struct seen *seen)
{
	uint64_t taken = process_others(device, seen) + device->used;

	if (seen->ci.generation == 0)
		taken += seen->gpu.memory_used;
	uint64_t left = taken < seen->memory ? seen->memory - taken : 0;
	if (device->limit != 0 && device->limit < device->used + left)
		return device->limit > device->used ? device->limit - device->used : 0;
	return left;
}

/* Kind: simulated. */
EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct seen seen;

	ENTER_CONTEXT(cuMemGetInfo_v2, context);
	REQUIRE(free_bytes != NULL && total != NULL);
	TRY(cuda_read(context->device, &seen));
	*free_bytes = room(context->device, &seen);
	*total = seen.memory;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	struct seen seen;
	void *host;

	ENTER_CONTEXT(cuMemAlloc_v2, context);
	REQUIRE(address != NULL && size > 0);
	TRY(cuda_read(context->device, &seen));
	if (size > room(context->device, &seen))
		return CUDA_ERROR_OUT_OF_MEMORY;
	host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (host == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct memory *m = object_new(sizeof(*m), KIND_MEMORY, &context->object);
	if (m == NULL) {
		munmap(host, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	m->object.release = release;
	m->device = context->device;
	m->device->used += size;
	process_update(m->device);
	m->size = size;
	m->host = host;
	m->address = next_address;
	/* A gap behind each allocation, so that an overrun hits no other memory. */
	next_address += (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	*address = m->address;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	ENTER_CONTEXT(cuMemFree_v2, context);
	if (address == 0)
		return CUDA_SUCCESS;
	for (struct memory *m = object_first(KIND_MEMORY); m != NULL; m = object_next(m, KIND_MEMORY)) {
		if (m->address == address) {
			object_free(&m->object);
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy(void *to, const void *from, size_t size)
{
	REQUIRE(size == 0 || (to != NULL && from != NULL));
	if (size > 0)
		memmove(to, from, size);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	ENTER_CONTEXT(cuMemcpyHtoD_v2, context);
	return copy(memory_at(to, size), from, size);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	ENTER_CONTEXT(cuMemcpyDtoH_v2, context);
	return copy(to, memory_at(from, size), size);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	ENTER_CONTEXT(cuMemcpyDtoD_v2, context);
	return copy(memory_at(to, size), memory_at(from, size), size);
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	ENTER_CONTEXT(cuMemcpyHtoDAsync_v2, context);
	TRY(stream_check(stream));
	return copy(memory_at(to, size), from, size);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	ENTER_CONTEXT(cuMemcpyDtoHAsync_v2, context);
	TRY(stream_check(stream));
	return copy(to, memory_at(from, size), size);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	ENTER_CONTEXT(cuMemcpyDtoDAsync_v2, context);
	TRY(stream_check(stream));
	return copy(memory_at(to, size), memory_at(from, size), size);
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	ENTER_CONTEXT(cuMemsetD8_v2, context);
	void *host = memory_at(to, count);
	REQUIRE(host != NULL);
	memset(host, value, count);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
	ENTER_CONTEXT(cuMemsetD32_v2, context);
	REQUIRE(to % 4 == 0 && count <= SIZE_MAX / 4);
	unsigned int *host = memory_at(to, count * 4);
	REQUIRE(host != NULL);
	for (size_t i = 0; i < count; i++)
		host[i] = value;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocHost_v2(void **host, size_t size)
{
	ENTER_CONTEXT(cuMemAllocHost_v2, context);
	REQUIRE(host != NULL && size > 0);
	*host = malloc(size);
	return *host != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *host)
{
	ENTER_CONTEXT(cuMemFreeHost, context);
	REQUIRE(host != NULL);
	free(host);
	return CUDA_SUCCESS;
}
