/* cuda_peer.c: copies between GPUs. Kind: real. */
#include "cuda_driver.h"

#include <string.h>

#include "peer.h"

/* reaches reports whether one device can access the memory of the other. CUDA has
 * no peer access for MIG devices. */
static bool reaches(const struct seen *a, const struct seen *b)
{
	return a->ci.generation == 0 && b->ci.generation == 0 && a->gpu.minor != b->gpu.minor &&
	       (peer_nvlink(&a->gpu, &b->gpu) || peer_pci(&a->gpu, &b->gpu));
}

/* Kind: simulated. */
EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	struct device *a, *b;
	struct seen seen_a, seen_b;

	ENTER(cuDeviceCanAccessPeer);
	REQUIRE(can != NULL);
	a = cuda_device(device);
	b = cuda_device(peer);
	if (a == NULL || b == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	TRY(cuda_read(a, &seen_a));
	TRY(cuda_read(b, &seen_b));
	*can = reaches(&seen_a, &seen_b);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	struct seen seen, other;

	ENTER_CONTEXT(cuCtxEnablePeerAccess, context);
	REQUIRE(flags == 0);
	if (object_check(peer, KIND_CONTEXT) == NULL || peer == context)
		return CUDA_ERROR_INVALID_CONTEXT;
	TRY(cuda_read(context->device, &seen));
	TRY(cuda_read(peer->device, &other));
	return reaches(&seen, &other) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* Without peer access, the driver copies by way of the host, so the copy never
 * depends on cuCtxEnablePeerAccess. */
EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
			     size_t size)
{
	ENTER(cuMemcpyPeer);
	if (object_check(to_context, KIND_CONTEXT) == NULL || object_check(from_context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	void *target = memory_at(to, size), *source = memory_at(from, size);
	REQUIRE(size == 0 || (target != NULL && source != NULL));
	memmove(target, source, size);
	return CUDA_SUCCESS;
}
