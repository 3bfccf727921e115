/* cuda_kernel.c: the kernels that the simulator can run, on the CPU. */
#include "cuda_driver.h"

#include <string.h>

struct kernel {
	const char *name;
	const char *signature; /* types of the parameters, see cuda_ptx.c */
	CUresult (*run)(uint64_t threads, void **params);
};

/* vectorAdd: sum[i] = a[i] + b[i] for i below n, one thread for each i. */
static CUresult vector_add(uint64_t threads, void **params)
{
	int32_t n = *(int32_t *)params[3];
	uint64_t count = n < 0 ? 0 : (uint64_t)n;

	if (count > threads)
		count = threads;
	if (count == 0)
		return CUDA_SUCCESS;
	const float *a = memory_at(*(CUdeviceptr *)params[0], count * sizeof(*a));
	const float *b = memory_at(*(CUdeviceptr *)params[1], count * sizeof(*b));
	float *sum = memory_at(*(CUdeviceptr *)params[2], count * sizeof(*sum));
	if (a == NULL || b == NULL || sum == NULL)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	for (uint64_t i = 0; i < count; i++)
		sum[i] = a[i] + b[i];
	return CUDA_SUCCESS;
}

static const struct kernel kernels[] = {
	{"vectorAdd", "b64,b64,b64,b32", vector_add},
	/* the C++ symbol of vectorAdd(const float *, const float *, float *, int) */
	{"_Z9vectorAddPKfS0_Pfi", "b64,b64,b64,b32", vector_add},
};

/* kernel_find returns the kernel of a name and signature, NULL if unknown. */
const struct kernel *kernel_find(const char *name, const char *signature)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		if (strcmp(kernels[i].name, name) == 0 && strcmp(kernels[i].signature, signature) == 0)
			return &kernels[i];
	}
	return NULL;
}

CUresult kernel_run(const struct kernel *kernel, uint64_t threads, void **params)
{
	return kernel->run(threads, params);
}
