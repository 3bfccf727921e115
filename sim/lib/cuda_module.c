/* cuda_module.c: modules, their functions, and launches. Kind: real. */
#include "cuda_driver.h"

#include <stdlib.h>
#include <string.h>

struct module {
	struct object object;
	struct context *context;
	struct ptx_entry *entries;
	int count;
};

struct function {
	struct object object;
	struct context *context;
	const struct kernel *kernel; /* NULL: the module has it, but cuda_kernel.c does not */
};

static void release(struct object *object)
{
	free(((struct module *)object)->entries);
}

/* binary reports whether an image is GPU machine code, which no CPU can run, and
 * not PTX. */
static bool binary(const unsigned char *image)
{
	static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'};
	static const unsigned char fat[] = {0x50, 0xed, 0x55, 0xba};
	static const unsigned char wrapped[] = {0xb1, 0x43, 0x62, 0x46};

	return memcmp(image, elf, 4) == 0 || memcmp(image, fat, 4) == 0 || memcmp(image, wrapped, 4) == 0;
}

static CUresult load(struct context *context, CUmodule *module, const void *image)
{
	struct ptx_entry *entries;
	struct seen seen;
	unsigned int target;

	REQUIRE(module != NULL && image != NULL);
	TRY(cuda_read(context->device, &seen));
	if (*(const char *)image == '\0')
		return CUDA_ERROR_INVALID_IMAGE;
	if (strnlen(image, 4) == 4 && binary(image))
		return CUDA_ERROR_NOT_SUPPORTED;
	int count = ptx_parse(image, &target, &entries);
	struct module *m = NULL;
	CUresult r = CUDA_SUCCESS;
	if (count < 0)
		r = CUDA_ERROR_INVALID_IMAGE;
	else if (target > seen.gpu.cc_major * 10 + seen.gpu.cc_minor)
		r = CUDA_ERROR_INVALID_PTX; /* the result of the compiler in the driver */
	else if ((m = object_new(sizeof(*m), KIND_MODULE, &context->object)) == NULL)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		free(entries);
		return r;
	}
	m->object.release = release;
	m->context = context;
	m->entries = entries;
	m->count = count;
	*module = m;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	ENTER_CONTEXT(cuModuleLoadData, context);
	return load(context, module, image);
}

/* The options are for the compiler and its log. Without a compiler, they are
 * ignored. */
EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options,
				   void **values)
{
	ENTER_CONTEXT(cuModuleLoadDataEx, context);
	REQUIRE(count == 0 || (options != NULL && values != NULL));
	return load(context, module, image);
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	ENTER_CONTEXT(cuModuleUnload, context);
	if (object_check(module, KIND_MODULE) == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	object_free(&module->object);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	ENTER_CONTEXT(cuModuleGetFunction, context);
	REQUIRE(function != NULL && name != NULL && *name != '\0');
	if (object_check(module, KIND_MODULE) == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < module->count; i++) {
		if (strcmp(module->entries[i].name, name) != 0)
			continue;
		struct function *f = object_new(sizeof(*f), KIND_FUNCTION, &module->object);
		if (f == NULL)
			return CUDA_ERROR_OUT_OF_MEMORY;
		f->context = module->context;
		f->kernel = kernel_find(name, module->entries[i].signature);
		*function = f;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

/* fits reports whether a launch is within the limits of cuDeviceGetAttribute. */
static bool fits(uint64_t gx, uint64_t gy, uint64_t gz, uint64_t bx, uint64_t by, uint64_t bz)
{
	return gx >= 1 && gx <= 2147483647 && gy >= 1 && gy <= 65535 && gz >= 1 && gz <= 65535 &&
	       bx >= 1 && bx <= 1024 && by >= 1 && by <= 1024 && bz >= 1 && bz <= 64 &&
	       bx * by * bz <= 1024;
}

/* A kernel fails only after the launch was accepted. The context keeps the error,
 * and every later call in the context returns it. */
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
			       unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			       CUstream stream, void **params, void **extra)
{
	ENTER_CONTEXT(cuLaunchKernel, context);
	if (object_check(function, KIND_FUNCTION) == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (function->context != context)
		return CUDA_ERROR_INVALID_CONTEXT;
	TRY(stream_check(stream));
	REQUIRE(fits(gx, gy, gz, bx, by, bz));
	REQUIRE((params != NULL) != (extra != NULL));
	/* The known kernels are one-dimensional and use no shared memory. */
	if (function->kernel == NULL || extra != NULL || shared != 0 || gy * gz * by * bz != 1)
		return CUDA_ERROR_NOT_SUPPORTED;
	context->failed = kernel_run(function->kernel, (uint64_t)gx * bx, params);
	return CUDA_SUCCESS;
}
