/* Calls the driver API as a CUDA program does. The node has two L4. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "../../lib/cuda_driver.h"

CUresult cuInit(unsigned int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemsetD32_v2(CUdeviceptr, unsigned int, size_t);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
			unsigned int, unsigned int, CUstream, void **, void **);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned int);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
CUresult cuEventCreate(CUevent *, unsigned int);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventElapsedTime(float *, CUevent, CUevent);

#define HEAD ".version 7.0\n.target sm_52\n.address_size 64\n"
#define VECTOR_ADD                                                             \
	".visible .entry vectorAdd(.param .u64 .ptr .global a, .param .u64 b, /* , ) */\n" \
	"  .param .u64 c, // )\n .param .s32 n)\n{ ret; }\n"

static void before_init(void)
{
	int n;

	CHECK(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	CHECK(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuInit(0), CUDA_SUCCESS);
	CHECK(cuInit(0), CUDA_SUCCESS);
}

static void devices(void)
{
	size_t total;
	char name[64];
	int n;

	CHECK(cuDeviceGetCount(&n), CUDA_SUCCESS);
	CHECK(n, 2);
	CHECK(cuDeviceGetName(name, sizeof(name), 1), CUDA_SUCCESS);
	CHECK(strcmp(name, "NVIDIA L4"), 0);
	CHECK(cuDeviceGetName(name, sizeof(name), 2), CUDA_ERROR_INVALID_DEVICE);
	CHECK(cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
	CHECK(total > (20ul << 30), 1);
	CHECK(cuDeviceGetAttribute(&n, 75, 0), CUDA_SUCCESS);
	CHECK(n, 8);
	CHECK(cuDeviceGetAttribute(&n, 100000, 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void contexts(void)
{
	CUcontext a, b, current;

	CHECK(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuDevicePrimaryCtxRetain(&a, 0), CUDA_SUCCESS);
	CHECK(cuDevicePrimaryCtxRetain(&b, 0), CUDA_SUCCESS);
	CHECK(a == b, 1);
	CHECK(cuCtxSetCurrent(a), CUDA_SUCCESS);
	CHECK(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CHECK(cuCtxSynchronize(), CUDA_SUCCESS);
	CHECK(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CHECK(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CHECK(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	CHECK(cuCtxCreate_v2(&a, 0, 7), CUDA_ERROR_INVALID_DEVICE);
	CHECK(cuCtxCreate_v2(&a, 0, 1), CUDA_SUCCESS);
	CHECK(cuCtxGetCurrent(&current), CUDA_SUCCESS);
	CHECK(current == a, 1);
	CHECK(cuCtxDestroy_v2(a), CUDA_SUCCESS);
	CHECK(cuCtxDestroy_v2(a), CUDA_ERROR_INVALID_CONTEXT);
}

static void memory(void)
{
	size_t before, after, total;
	unsigned int word = 0;
	CUdeviceptr p, q;

	CHECK(cuMemGetInfo_v2(&before, &total), CUDA_SUCCESS);
	CHECK(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemAlloc_v2(&p, before + 1), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAlloc_v2(&p, 4096), CUDA_SUCCESS);
	CHECK(cuMemAlloc_v2(&q, before), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
	CHECK(before - after, 4096);
	CHECK(cuMemsetD32_v2(p, 0xfeedbeef, 1024), CUDA_SUCCESS);
	CHECK(cuMemcpyDtoH_v2(&word, p + 4092, 4), CUDA_SUCCESS);
	CHECK(word, 0xfeedbeef);
	CHECK(cuMemcpyDtoH_v2(&word, p + 4093, 4), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2(p - 1, &word, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)&word, &word, 4), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemFree_v2(p), CUDA_SUCCESS);
	CHECK(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemGetInfo_v2(&after, &total), CUDA_SUCCESS);
	CHECK(before == after, 1);
}

static void modules(void)
{
	CUfunction f;
	CUmodule m;

	CHECK(cuModuleLoadData(&m, "no PTX at all"), CUDA_ERROR_INVALID_IMAGE);
	CHECK(cuModuleLoadData(&m, "\x7f" "ELF"), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(cuModuleLoadData(&m, ".version 8.0\n.target sm_90\n.address_size 64\n"), CUDA_ERROR_INVALID_PTX);
	CHECK(cuModuleLoadData(&m, HEAD VECTOR_ADD), CUDA_SUCCESS);
	CHECK(cuModuleGetFunction(&f, m, "vectorSub"), CUDA_ERROR_NOT_FOUND);
	CHECK(cuModuleGetFunction(&f, m, "vectorAdd"), CUDA_SUCCESS);
	CHECK(cuModuleUnload(m), CUDA_SUCCESS);
	CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void **)&f, NULL), CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
}

/* launch runs a kernel of a module with three vectors of four elements. */
static CUresult launch(const char *ptx, const char *name, unsigned int threads, int n, float out[4])
{
	float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
	CUdeviceptr p[3];
	CUfunction f;
	CUmodule m;

	for (int i = 0; i < 3; i++)
		CHECK(cuMemAlloc_v2(&p[i], sizeof(a)), CUDA_SUCCESS);
	CHECK(cuMemcpyHtoD_v2(p[0], a, sizeof(a)), CUDA_SUCCESS);
	CHECK(cuMemcpyHtoD_v2(p[1], b, sizeof(b)), CUDA_SUCCESS);
	CHECK(cuModuleLoadData(&m, ptx), CUDA_SUCCESS);
	CHECK(cuModuleGetFunction(&f, m, name), CUDA_SUCCESS);
	void *params[] = {&p[0], &p[1], &p[2], &n};
	CUresult r = cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL);
	if (r == CUDA_SUCCESS)
		r = cuCtxSynchronize();
	if (r == CUDA_SUCCESS)
		r = cuMemcpyDtoH_v2(out, p[2], sizeof(a));
	return r;
}

static void kernels(CUcontext *context)
{
	float sum[4];

	CHECK(launch(HEAD VECTOR_ADD, "vectorAdd", 4, 4, sum), CUDA_SUCCESS);
	CHECK(sum[0] == 11 && sum[3] == 44, 1);
	CHECK(launch(HEAD VECTOR_ADD, "vectorAdd", 2, 4, sum), CUDA_SUCCESS);
	CHECK(sum[1] == 22 && sum[2] == 0, 1);
	CHECK(launch(HEAD VECTOR_ADD, "vectorAdd", 2048, 4, sum), CUDA_ERROR_INVALID_VALUE);
	CHECK(launch(HEAD ".entry vectorMul(.param .u64 a) { ret; }", "vectorMul", 1, 1, sum), CUDA_ERROR_NOT_SUPPORTED);
	CHECK(launch(HEAD ".entry vectorAdd(.param .u64 a, .param .u32 n) { ret; }", "vectorAdd", 1, 1, sum),
	      CUDA_ERROR_NOT_SUPPORTED);
	/* A kernel that accesses other memory makes all later calls in the context fail. */
	CHECK(launch(HEAD VECTOR_ADD, "vectorAdd", 128, 128, sum), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(cuCtxDestroy_v2(*context), CUDA_SUCCESS);
	CHECK(cuCtxCreate_v2(context, 0, 0), CUDA_SUCCESS);
	CHECK(launch(HEAD VECTOR_ADD, "vectorAdd", 4, 4, sum), CUDA_SUCCESS);
}

static void peers(CUcontext first)
{
	unsigned int word = 0xfeedbeef;
	CUcontext second;
	CUdeviceptr p, q;
	int can;

	CHECK(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
	CHECK(can, 1);
	CHECK(cuDeviceCanAccessPeer(&can, 0, 0), CUDA_SUCCESS);
	CHECK(can, 0);
	CHECK(cuDeviceCanAccessPeer(&can, 0, 2), CUDA_ERROR_INVALID_DEVICE);
	CHECK(cuMemAlloc_v2(&p, 4096), CUDA_SUCCESS);
	CHECK(cuMemcpyHtoD_v2(p, &word, 4), CUDA_SUCCESS);
	CHECK(cuCtxCreate_v2(&second, 0, 1), CUDA_SUCCESS);
	CHECK(cuMemAlloc_v2(&q, 4096), CUDA_SUCCESS);
	CHECK(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxEnablePeerAccess(first, 0), CUDA_SUCCESS);
	CHECK(cuMemcpyPeer(q, second, p, first, 4097), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyPeer(q, NULL, p, first, 4096), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuMemcpyPeer(q, second, p, first, 4096), CUDA_SUCCESS);
	word = 0;
	CHECK(cuMemcpyDtoH_v2(&word, q, 4), CUDA_SUCCESS);
	CHECK(word, 0xfeedbeef);
	CHECK(cuCtxDestroy_v2(second), CUDA_SUCCESS);
	CHECK(cuMemFree_v2(p), CUDA_SUCCESS);
}

static void the_rest(void)
{
	CUevent start, end;
	const char *name;
	void *address;
	float ms = -1;
	int status;

	CHECK(cuEventCreate(&start, 0), CUDA_SUCCESS);
	CHECK(cuEventCreate(&end, 0), CUDA_SUCCESS);
	CHECK(cuEventRecord(start, NULL), CUDA_SUCCESS);
	CHECK(cuEventElapsedTime(&ms, start, end), CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuEventRecord(end, NULL), CUDA_SUCCESS);
	CHECK(cuEventElapsedTime(&ms, start, end), CUDA_SUCCESS);
	CHECK(ms >= 0, 1);
	CHECK(cuGetErrorName(CUDA_ERROR_NO_DEVICE, &name), CUDA_SUCCESS);
	CHECK(strcmp(name, "CUDA_ERROR_NO_DEVICE"), 0);
	CHECK(cuGetErrorName((CUresult)12345, &name), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, &status), CUDA_SUCCESS);
	CHECK(address == (void *)cuMemAlloc_v2, 1);
	CHECK(cuGetProcAddress_v2("cuNoSuchThing", &address, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
	CHECK(status, 1);
}

int main(void)
{
	CUcontext context;

	before_init();
	devices();
	contexts();
	CHECK(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	memory();
	modules();
	kernels(&context);
	peers(context);
	the_rest();
	CHECK(cuCtxDestroy_v2(context), CUDA_SUCCESS);
	return failures != 0;
}
