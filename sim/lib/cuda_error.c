/* cuda_error.c: names and descriptions of results. Kind: real. */
#include "cuda_driver.h"

static const struct {
	CUresult result;
	const char *name, *text;
} results[] = {
#define RESULT(name, text) {name, #name, text}
	RESULT(CUDA_SUCCESS, "no error"),
	RESULT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
	RESULT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
	RESULT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
	RESULT(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
	RESULT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
	RESULT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
	RESULT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
	RESULT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
	RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
	RESULT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
	RESULT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
	RESULT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
	RESULT(CUDA_ERROR_NOT_READY, "device not ready"),
	RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
	RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
	RESULT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
	RESULT(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
	RESULT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
	RESULT(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS client failed to connect to the MPS control daemon or the MPS server"),
	RESULT(CUDA_ERROR_MPS_RPC_FAILURE, "the remote procedural call between the MPS server and the MPS client failed"),
	RESULT(CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS server is not ready to accept new MPS client requests"),
	RESULT(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef RESULT
};

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
	TRY(cuda_enter(SIM_SYM_cuGetErrorName));
	REQUIRE(name != NULL);
	*name = NULL;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].result == result)
			*name = results[i].name;
	}
	return *name != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
	TRY(cuda_enter(SIM_SYM_cuGetErrorString));
	REQUIRE(text != NULL);
	*text = NULL;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].result == result)
			*text = results[i].text;
	}
	return *text != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
