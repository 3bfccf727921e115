/*
 * mig.h: handles of MIG devices, GPU instances and compute instances.
 *
 * nvml.h: when an instance is destroyed its handle becomes invalid, and
 * "handles may be reused". So a handle points to the word that says which
 * instance it stands for, by a number that is never used twice, and is looked
 * up anew in every call. One that stands for an instance that is gone is an
 * invalid argument.
 */
#ifndef MIG_H
#define MIG_H

#include "capability.h"
#include "session.h"

/* What a handle stands for, at one moment. The pointers lead into the view
 * itself, so it is filled in place and not copied. */
struct mig_view {
	nvmlDevice_t parent;
	struct sim_gpu gpu;
	struct sim_mig mig;
	const struct sim_board *board; /* NULL: the GPU has no MIG mode */
	const struct sim_gi *gi;       /* NULL where the handle is that of a GPU */
	const struct sim_gi_profile *gi_profile;
	const struct sim_ci *ci; /* NULL where it is not of a compute instance */
	struct sim_ci_profile ci_profile;
};

bool mig_is_handle(nvmlDevice_t device);
void mig_forget_handles(void);

/* Each checks a handle and fills the view. */
nvmlReturn_t mig_view_gpu(nvmlDevice_t device, struct mig_view *view);
nvmlReturn_t mig_view_device(nvmlDevice_t device, struct mig_view *view);
nvmlReturn_t mig_view_gi(nvmlGpuInstance_t handle, struct mig_view *view);
nvmlReturn_t mig_view_ci(nvmlComputeInstance_t handle, struct mig_view *view);

/* Each gives the handle of an instance. */
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

/* REQUIRE_MODE turns away callers while the GPU is not divided. */
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
