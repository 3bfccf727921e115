/* cuda_stream.c: streams and events. All work is done when it is started.
 * Therefore, a stream is always empty, and a recorded event is complete. Kind: real. */
#include "cuda_driver.h"

struct stream {
	struct object object;
};

struct event {
	struct object object;
	int64_t recorded_ns; /* 0: not yet */
};

/* stream_check accepts the default streams, 0 to 2, and created streams. */
CUresult stream_check(CUstream stream)
{
	if ((uintptr_t)stream > 2 && object_check(stream, KIND_STREAM) == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	return CUDA_SUCCESS;
}

static CUresult check_event(CUevent event)
{
	return object_check(event, KIND_EVENT) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	ENTER_CONTEXT(cuStreamCreate, context);
	REQUIRE(stream != NULL && flags <= 1);
	*stream = object_new(sizeof(**stream), KIND_STREAM, &context->object);
	return *stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	ENTER_CONTEXT(cuStreamDestroy_v2, context);
	if (object_check(stream, KIND_STREAM) == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	object_free(&stream->object);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	ENTER_CONTEXT(cuStreamSynchronize, context);
	return stream_check(stream);
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
	ENTER_CONTEXT(cuStreamQuery, context);
	return stream_check(stream);
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	ENTER_CONTEXT(cuStreamWaitEvent, context);
	(void)flags;
	TRY(stream_check(stream));
	return check_event(event);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	ENTER_CONTEXT(cuEventCreate, context);
	REQUIRE(event != NULL && flags <= 7);
	*event = object_new(sizeof(**event), KIND_EVENT, &context->object);
	return *event != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	ENTER_CONTEXT(cuEventDestroy_v2, context);
	TRY(check_event(event));
	object_free(&event->object);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	ENTER_CONTEXT(cuEventRecord, context);
	TRY(stream_check(stream));
	TRY(check_event(event));
	event->recorded_ns = sim_now_ns();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
	ENTER_CONTEXT(cuEventQuery, context);
	return check_event(event);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
	ENTER_CONTEXT(cuEventSynchronize, context);
	return check_event(event);
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	ENTER_CONTEXT(cuEventElapsedTime, context);
	REQUIRE(milliseconds != NULL);
	TRY(check_event(start));
	TRY(check_event(end));
	if (start->recorded_ns == 0 || end->recorded_ns == 0)
		return CUDA_ERROR_INVALID_HANDLE;
	*milliseconds = (float)(end->recorded_ns - start->recorded_ns) / 1e6f;
	return CUDA_SUCCESS;
}
