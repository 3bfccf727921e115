/*
 * mig.h: handles of MIG devices, GPU instances and compute instances.
 *
 * nvml.h: when an instance is destroyed, its handle becomes invalid, and
 * "handles may be reused". A handle points to a word with the generation of an
 * instance, which is never used twice. Every call looks up the instance by this
 * generation. The handle of a destroyed instance is an invalid argument.
 */
#ifndef MIG_H
#define MIG_H

#include "capability.h"
#include "session.h"

/* The target of a handle at one moment. The pointers point into the view itself,
 * so a view is filled in place and not copied. */
struct mig_view {
	nvmlDevice_t parent;
	struct sim_gpu gpu;
	struct sim_mig mig;
	const struct sim_board *board; /* NULL: the GPU has no MIG mode */
	const struct sim_gi *gi;       /* NULL for the handle of a GPU */
	const struct sim_gi_profile *gi_profile;
	const struct sim_ci *ci; /* NULL unless the handle is of a compute instance */
	struct sim_ci_profile ci_profile;
};

bool mig_is_handle(nvmlDevice_t device);
void mig_forget_handles(void);

/* Each function checks a handle of one kind and fills the view. */
nvmlReturn_t mig_view_gpu(nvmlDevice_t device, struct mig_view *view);
nvmlReturn_t mig_view_device(nvmlDevice_t device, struct mig_view *view);
nvmlReturn_t mig_view_gi(nvmlGpuInstance_t handle, struct mig_view *view);
nvmlReturn_t mig_view_ci(nvmlComputeInstance_t handle, struct mig_view *view);

/* Each function returns the handle of an instance. */
nvmlDevice_t mig_device_handle(nvmlDevice_t parent, uint64_t ci);
nvmlGpuInstance_t mig_gi_handle(nvmlDevice_t parent, uint64_t gi);
nvmlComputeInstance_t mig_ci_handle(nvmlDevice_t parent, uint64_t ci);

bool mig_visible(const struct sim_gpu *gpu, const struct sim_ci *ci);
unsigned int mig_index(const struct mig_view *view);
struct sim_ref mig_ref(const struct sim_gpu *gpu);
nvmlReturn_t mig_find(const char *uuid, nvmlDevice_t *device);

#define ENTER_VIEW(name, how, handle, view)                                    \
	struct mig_view view;                                                  \
	ENTER(name);                                                           \
	do {                                                                   \
		nvmlReturn_t viewed = how((handle), &view);                    \
		if (viewed != NVML_SUCCESS)                                    \
			return viewed;                                         \
	} while (0)

/* REQUIRE_MODE returns NOT_SUPPORTED if the GPU is not in MIG mode. */
#define REQUIRE_MODE(view)                                                     \
	do {                                                                   \
		if ((view).board == NULL || !(view).mig.mode)                  \
			return NVML_ERROR_NOT_SUPPORTED;                       \
	} while (0)

#define REQUIRE_CAPABILITY(held)                                               \
	do {                                                                   \
		if (!(held))                                                   \
			return NVML_ERROR_NO_PERMISSION;                       \
	} while (0)

#endif
