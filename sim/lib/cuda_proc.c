/* cuda_proc.c: entry points by name, as the CUDA runtime looks them up. Kind: real. */
#include "cuda_driver.h"

#include <stdio.h>
#include <string.h>

/* Only the address of each symbol is used here, so prototypes are not needed. */
#define SIM_SYMBOL(name) extern const char address_##name[] __asm__(#name) EXPORT;
#include "symbols_cuda.h"
#undef SIM_SYMBOL

static const struct {
	const char *name;
	const void *address;
} entry_points[] = {
#define SIM_SYMBOL(name) {#name, address_##name},
#include "symbols_cuda.h"
#undef SIM_SYMBOL
};

static const void *lookup(const char *name)
{
	for (size_t i = 0; i < sizeof(entry_points) / sizeof(entry_points[0]); i++) {
		if (strcmp(entry_points[i].name, name) == 0)
			return entry_points[i].address;
	}
	return NULL;
}

/* find returns the variant of a function that a program expects if it was built
 * for a version of CUDA. It returns NULL if the library lacks this variant. */
static const void *find(const char *name, int version)
{
	char variant[128];

	/* Since CUDA 13, the name stands for the fourth variant, which has other
	 * parameters. */
	if (version >= 13000 && strcmp(name, "cuCtxCreate") == 0)
		return NULL;
	snprintf(variant, sizeof(variant), "%s_v2", name);
	const void *found = lookup(variant);
	return found != NULL ? found : lookup(name);
}

EXPORT CUresult cuGetProcAddress(const char *name, const void **address, int version, uint64_t flags)
{
	TRY(cuda_enter(SIM_SYM_cuGetProcAddress));
	(void)flags; /* the flags select the default stream, which has no effect here */
	REQUIRE(name != NULL && address != NULL);
	*address = find(name, version);
	return *address != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, const void **address, int version, uint64_t flags,
				    int *status)
{
	TRY(cuda_enter(SIM_SYM_cuGetProcAddress_v2));
	(void)flags;
	REQUIRE(name != NULL && address != NULL);
	*address = find(name, version);
	if (status != NULL)
		*status = *address == NULL; /* 1: the symbol was not found */
	return *address != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
