/* mig_handle.c: handles and their instances. */
#include "mig.h"

#include <pthread.h>
#include <string.h>

/* Handles of one kind on one GPU. They are more than the possible instances, so
 * that a handle is always free. */
#define HANDLES 9
_Static_assert(HANDLES > SIM_MAX_GIS && HANDLES > SIM_MAX_CIS, "a free handle");

/* The handles of one kind. A handle is the address of its word. */
struct table {
	uint64_t instance[SIM_MAX_GPUS][HANDLES]; /* by NVML index of the GPU */
	uint32_t next[SIM_MAX_GPUS];              /* start of the search for a free handle */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards changes of the tables */
static struct table devices, gpu_instances, compute_instances;

void mig_forget_handles(void)
{
	pthread_mutex_lock(&mutex);
	memset(&devices, 0, sizeof(devices));
	memset(&gpu_instances, 0, sizeof(gpu_instances));
	memset(&compute_instances, 0, sizeof(compute_instances));
	pthread_mutex_unlock(&mutex);
}

static bool within(const struct table *table, const void *handle)
{
	const char *first = (const char *)table->instance, *at = handle;

	return at >= first && at < first + sizeof(table->instance) && (at - first) % sizeof(uint64_t) == 0;
}

/* read_handle returns the generation of the instance of a handle, or 0 if it has
 * none, and the GPU of the instance. */
static uint64_t read_handle(const struct table *table, const void *handle, nvmlDevice_t *parent)
{
	if (!within(table, handle))
		return 0;
	const uint64_t *word = handle;
	*parent = session_at((uint32_t)((word - table->instance[0]) / HANDLES));
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool alive(const struct sim_mig *mig, uint64_t instance)
{
	return sim_gi_by_generation(mig, instance) != NULL || sim_ci_by_generation(mig, instance) != NULL;
}

/* give_handle returns the handle of an instance. A new instance gets the handle
 * that was returned longest ago among the handles of destroyed instances. The
 * copy of the state is read under the lock, so that it has every instance for
 * which another thread already has a handle. */
static void *give_handle(struct table *table, nvmlDevice_t parent, uint64_t instance)
{
	uint64_t *word = table->instance[parent->index];
	uint32_t *next = &table->next[parent->index], found = HANDLES;
	struct sim_mig mig;

	pthread_mutex_lock(&mutex);
	sim_read_mig(session_sim(), parent->slot, &mig);
	for (uint32_t i = 0; i < HANDLES; i++) {
		if (word[i] == instance)
			found = i;
	}
	for (uint32_t i = 0; i < HANDLES && found == HANDLES; i++) {
		uint32_t at = (*next + i) % HANDLES;
		if (!alive(&mig, word[at])) {
			found = at;
			*next = (at + 1) % HANDLES;
			__atomic_store_n(&word[at], instance, __ATOMIC_RELEASE);
		}
	}
	pthread_mutex_unlock(&mutex);
	return &word[found];
}

bool mig_is_handle(nvmlDevice_t device)
{
	return within(&devices, device);
}

nvmlDevice_t mig_device_handle(nvmlDevice_t parent, uint64_t ci)
{
	return give_handle(&devices, parent, ci);
}

nvmlGpuInstance_t mig_gi_handle(nvmlDevice_t parent, uint64_t gi)
{
	return give_handle(&gpu_instances, parent, gi);
}

nvmlComputeInstance_t mig_ci_handle(nvmlDevice_t parent, uint64_t ci)
{
	return give_handle(&compute_instances, parent, ci);
}

nvmlReturn_t mig_view_gpu(nvmlDevice_t device, struct mig_view *view)
{
	nvmlReturn_t r = session_device(device, &view->gpu);

	if (r != NVML_SUCCESS)
		return r;
	view->parent = device;
	view->board = sim_board(session_sim(), &view->gpu);
	view->gi = NULL;
	view->gi_profile = NULL;
	view->ci = NULL;
	sim_read_mig(session_sim(), device->slot, &view->mig);
	return NVML_SUCCESS;
}

/* view_instance fills the view from a handle of any kind. */
static nvmlReturn_t view_instance(const struct table *table, const void *handle, struct mig_view *view)
{
	nvmlDevice_t parent = NULL;
	uint64_t instance = read_handle(table, handle, &parent);

	REQUIRE(instance != 0 && parent != NULL);
	nvmlReturn_t r = mig_view_gpu(parent, view);
	if (r != NVML_SUCCESS)
		return r;
	view->gi = sim_gi_by_generation(&view->mig, instance);
	view->ci = sim_ci_by_generation(&view->mig, instance);
	if (view->ci != NULL)
		view->gi = sim_gi_by_id(&view->mig, view->ci->gi);
	REQUIRE(view->gi != NULL && view->board != NULL);
	view->gi_profile = sim_gi_profile(view->board, view->gi->profile);
	REQUIRE(view->gi_profile != NULL);
	if (view->ci != NULL)
		REQUIRE(sim_ci_profile(view->board, view->gi_profile, view->ci->profile, &view->ci_profile));
	return NVML_SUCCESS;
}

nvmlReturn_t mig_view_device(nvmlDevice_t device, struct mig_view *view)
{
	return view_instance(&devices, device, view);
}

nvmlReturn_t mig_view_gi(nvmlGpuInstance_t handle, struct mig_view *view)
{
	return view_instance(&gpu_instances, handle, view);
}

nvmlReturn_t mig_view_ci(nvmlComputeInstance_t handle, struct mig_view *view)
{
	return view_instance(&compute_instances, handle, view);
}

/* mig_visible reports whether the process sees a MIG device. A container sees only
 * its own MIG devices. */
bool mig_visible(const struct sim_gpu *gpu, const struct sim_ci *ci)
{
	return capability_monitor() || capability_instance(gpu->minor, ci);
}

struct sim_ref mig_ref(const struct sim_gpu *gpu)
{
	return (struct sim_ref){gpu->minor, gpu->generation};
}
