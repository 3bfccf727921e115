/* cuda_context.c: contexts, and which one is current in a thread. Kind: real. */
#include "cuda_driver.h"

#define DEPTH 32

static _Thread_local struct {
	struct context *context[DEPTH];
	int depth;
} stack;

static struct context *top(void)
{
	return stack.depth > 0 ? stack.context[stack.depth - 1] : NULL;
}

/* context_current returns the current context, if it is still usable. When a GPU
 * is lost, all contexts on it fail permanently, and when the MPS server of a client
 * has ended, all contexts of the client. */
CUresult context_current(struct context **context)
{
	struct context *c = top();
	struct seen seen;

	if (c == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (object_check(c, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (c->failed == CUDA_SUCCESS)
		c->failed = mps_check();
	if (c->failed == CUDA_SUCCESS && cuda_read(c->device, &seen) != CUDA_SUCCESS)
		c->failed = CUDA_ERROR_UNKNOWN;
	*context = c;
	return c->failed;
}

static CUresult push(struct context *context)
{
	REQUIRE(stack.depth < DEPTH);
	stack.context[stack.depth++] = context;
	return CUDA_SUCCESS;
}

/* release removes a context from its device. The objects of the context are
 * already freed. */
static void release(struct object *object)
{
	struct device *device = ((struct context *)object)->device;

	device->contexts--;
	process_update(device);
}

static CUresult create(struct context **context, CUdevice ordinal)
{
	struct device *device = cuda_device(ordinal);
	struct seen seen;

	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	TRY(mps_check());
	TRY(cuda_read(device, &seen));
	TRY(process_begin(device));
	*context = object_new(sizeof(**context), KIND_CONTEXT, NULL);
	if (*context == NULL) {
		process_update(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	(*context)->object.release = release;
	(*context)->device = device;
	device->contexts++;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct context *made;

	ENTER(cuCtxCreate_v2);
	(void)flags; /* the flags for waiting have no effect here */
	REQUIRE(context != NULL && stack.depth < DEPTH);
	TRY(create(&made, device));
	*context = made;
	return push(made);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	ENTER(cuCtxDestroy_v2);
	if (object_check(context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	REQUIRE(context->device->primary != context);
	if (top() == context)
		stack.depth--;
	object_free(&context->object);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	ENTER(cuCtxPushCurrent_v2);
	if (object_check(context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	return push(context);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	ENTER(cuCtxPopCurrent_v2);
	if (stack.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.depth--;
	if (context != NULL)
		*context = stack.context[stack.depth];
	return CUDA_SUCCESS;
}

/* After cuCtxSetCurrent(NULL), the thread has no current context. */
EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER(cuCtxSetCurrent);
	if (context != NULL && object_check(context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (stack.depth > 0)
		stack.depth--;
	return context != NULL ? push(context) : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	ENTER(cuCtxGetCurrent);
	REQUIRE(context != NULL);
	*context = top();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	ENTER_CONTEXT(cuCtxGetDevice, context);
	REQUIRE(device != NULL);
	*device = cuda_ordinal(context->device);
	return CUDA_SUCCESS;
}

/* All work is already done when it was started, so only the result is reported. */
EXPORT CUresult cuCtxSynchronize(void)
{
	ENTER_CONTEXT(cuCtxSynchronize, context);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
	struct device *device;

	ENTER(cuDevicePrimaryCtxRetain);
	REQUIRE(context != NULL);
	device = cuda_device(ordinal);
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device->primary == NULL)
		TRY(create(&device->primary, ordinal));
	device->retained++;
	*context = device->primary;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
	struct device *device;

	ENTER(cuDevicePrimaryCtxRelease_v2);
	device = cuda_device(ordinal);
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (device->retained == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--device->retained == 0) {
		object_free(&device->primary->object);
		device->primary = NULL;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active)
{
	struct device *device;

	ENTER(cuDevicePrimaryCtxGetState);
	REQUIRE(flags != NULL && active != NULL);
	device = cuda_device(ordinal);
	if (device == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = 0;
	*active = device->primary != NULL;
	return CUDA_SUCCESS;
}
