/* session.c: nvmlInit, nvmlShutdown, and the handles of GPUs between them. Kind: simulated. */
#include "session.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "latency.h"
#include "mig.h"
#include "place.h"

/* The list of GPUs is made when the first session opens. It does not change while a
 * session is open, because NVML then does not renumber GPUs. */
static struct {
	pthread_mutex_t mutex; /* guards opening and closing */
	atomic_uint sessions;
	_Atomic(struct sim *) sim;
	int control; /* /dev/nvidiactl while a session is open, -1 if no driver serves it */
	uint32_t count;
	struct nvmlDevice_st device[SIM_MAX_GPUS]; /* by NVML index */
} session = {.mutex = PTHREAD_MUTEX_INITIALIZER, .control = -1};

struct sim *session_sim(void)
{
	return atomic_load_explicit(&session.sim, memory_order_acquire);
}

/* begin counts a call and returns the code that is forced for its symbol. */
static nvmlReturn_t begin(struct sim *sim, enum sim_symbol symbol)
{
	uint32_t forced = sim_count_call(sim, symbol);
	uint64_t ns = sim_latency(sim);

	if (ns != 0)
		latency_pass(ns);
	return (nvmlReturn_t)forced;
}

nvmlReturn_t session_enter(enum sim_symbol symbol)
{
	struct sim *sim = session_sim();

	if (atomic_load_explicit(&session.sessions, memory_order_acquire) == 0)
		return NVML_ERROR_UNINITIALIZED;
	nvmlReturn_t forced = begin(sim, symbol);
	if (forced != NVML_SUCCESS)
		return forced;
	return sim_loaded(sim) ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

/* session_stub is the call of a symbol that the simulator does not implement. */
nvmlReturn_t session_stub(enum sim_symbol symbol)
{
	nvmlReturn_t r = session_enter(symbol);

	return r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r;
}

/* show sets the folders of the node's /proc and /dev. Changes of instances then
 * update the files there, as a kernel driver would. */
static void show(struct sim *sim)
{
	char root[PATH_MAX], proc[PATH_MAX + 8], dev[PATH_MAX + 8];

	if (place_shown(&session, root, sizeof(root)) != 0)
		return;
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(dev, sizeof(dev), "%s/dev", root);
	sim_show_at(sim, proc, dev); /* if memory is not available, no files are written */
}

/* map opens the state file, unless it is already open. If the node was deleted and
 * created again, map opens the new file. */
static nvmlReturn_t map(void)
{
	struct sim *old = session_sim(), *sim;
	char path[PATH_MAX];

	if (place_state(&session, path, sizeof(path)) != 0)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (old != NULL) {
		if (sim_same_file(old, path))
			return NVML_SUCCESS;
		atomic_store(&session.sim, NULL);
		sim_close(old);
	}
	switch (sim_open(path, &sim)) {
	case SIM_OK:
		show(sim);
		atomic_store_explicit(&session.sim, sim, memory_order_release);
		return NVML_SUCCESS;
	case SIM_ERRNO:
		return NVML_ERROR_DRIVER_NOT_LOADED;
	case SIM_VERSION_MISMATCH: /* the library belongs to another driver version */
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

static void release_control(void)
{
	if (session.control >= 0)
		close(session.control);
	session.control = -1;
}

/* control opens /dev/nvidiactl. If the device cgroup blocks the node, the result is
 * UNKNOWN, as in containers whose device cgroup was rewritten ("Failed to
 * initialize NVML: Unknown Error"). */
static nvmlReturn_t control(void)
{
	int fd;

	switch (place_open("nvidiactl", &fd)) {
	case ACCESS_ALLOWED:
		/* While the file is open, the kernel does not unload the module. */
		release_control();
		session.control = fd;
		return NVML_SUCCESS;
	case ACCESS_ABSENT:
		return NVML_ERROR_DRIVER_NOT_LOADED;
	case ACCESS_DENIED:
		return NVML_ERROR_NO_PERMISSION;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

/* enumerate lists the GPUs whose device node exists. A GPU whose node the process
 * may not open is listed too, but the process gets no handle for it. */
static void enumerate(struct sim *sim)
{
	struct sim_gpu gpu[SIM_MAX_GPUS];
	uint32_t n = sim_enumerate(sim, gpu);

	session.count = 0;
	memset(session.device, 0, sizeof(session.device));
	mig_forget_handles();
	for (uint32_t i = 0; i < n; i++) {
		if (place_access_gpu(gpu[i].minor) == ACCESS_ABSENT)
			continue;
		session.device[session.count] = (struct nvmlDevice_st){
			.slot = gpu[i].minor,
			.index = session.count,
			.generation = gpu[i].generation,
		};
		session.count++;
	}
}

static nvmlReturn_t open_session(enum sim_symbol symbol)
{
	nvmlReturn_t r = NVML_SUCCESS;

	pthread_mutex_lock(&session.mutex);
	if (atomic_load(&session.sessions) == 0)
		r = map();
	if (r == NVML_SUCCESS)
		r = begin(session_sim(), symbol);
	if (r == NVML_SUCCESS && !sim_loaded(session_sim()))
		r = NVML_ERROR_DRIVER_NOT_LOADED;
	if (r == NVML_SUCCESS)
		r = control();
	if (r == NVML_SUCCESS) {
		if (atomic_load(&session.sessions) == 0)
			enumerate(session_sim());
		atomic_fetch_add_explicit(&session.sessions, 1, memory_order_release);
	}
	pthread_mutex_unlock(&session.mutex);
	return r;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return open_session(SIM_SYM_nvmlInit_v2);
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	const unsigned int known =
		NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH | NVML_INIT_FLAG_FORCE_INIT;

	REQUIRE((flags & ~known) == 0);
	return open_session(SIM_SYM_nvmlInitWithFlags);
}

/* The first version also attaches all GPUs, and fails if it cannot attach one. */
EXPORT nvmlReturn_t nvmlInit(void)
{
	nvmlReturn_t r = open_session(SIM_SYM_nvmlInit);

	for (uint32_t i = 0; r == NVML_SUCCESS && i < session.count; i++) {
		r = session_attach(&session.device[i]);
		if (r != NVML_SUCCESS)
			nvmlShutdown();
	}
	return r;
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t r = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&session.mutex);
	if (atomic_load(&session.sessions) > 0) {
		r = begin(session_sim(), SIM_SYM_nvmlShutdown);
		if (r == NVML_SUCCESS && atomic_fetch_sub(&session.sessions, 1) == 1)
			release_control();
	}
	pthread_mutex_unlock(&session.mutex);
	return r;
}

/* The state stays mapped between sessions, until the library is unloaded. */
__attribute__((destructor)) static void unload(void)
{
	struct sim *sim = atomic_exchange(&session.sim, NULL);

	if (sim != NULL)
		sim_close(sim);
}

uint32_t session_count(void)
{
	return session.count;
}

nvmlDevice_t session_at(uint32_t index)
{
	return index < session.count ? &session.device[index] : NULL;
}

nvmlDevice_t session_find(uint32_t slot, uint64_t generation)
{
	for (uint32_t i = 0; i < session.count; i++) {
		if (session.device[i].slot == slot && session.device[i].generation == generation)
			return &session.device[i];
	}
	return NULL;
}

/* read_gpu copies the state of a handle's GPU. It returns GPU_IS_LOST if the GPU was
 * unplugged, or if another GPU is now in its slot. */
static nvmlReturn_t read_gpu(nvmlDevice_t device, struct sim_gpu *gpu)
{
	sim_read_gpu(session_sim(), device->slot, gpu);
	return gpu->generation == device->generation ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

/* reject returns the error for the handle of a MIG device in an entry point for
 * GPUs. According to nvml.h, such handles work "with some restrictions". It names
 * the error only for nvmlDeviceGetNumGpuCores. Here, all entry points return it. */
static nvmlReturn_t reject(nvmlDevice_t device)
{
	struct mig_view view;
	nvmlReturn_t r = mig_view_device(device, &view);

	return r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r;
}

/* session_device checks a handle and copies the state of its GPU. */
nvmlReturn_t session_device(nvmlDevice_t device, struct sim_gpu *gpu)
{
	if (mig_is_handle(device))
		return reject(device);
	REQUIRE(device >= session.device && device < session.device + session.count);
	REQUIRE(((char *)device - (char *)session.device) % sizeof(*device) == 0);
	nvmlReturn_t r = read_gpu(device, gpu);
	if (r == NVML_SUCCESS && gpu->lost != SIM_PRESENT)
		r = NVML_ERROR_GPU_IS_LOST;
	return r;
}

/* session_attach prepares a GPU before its handle is returned, as NVML does: it
 * opens the GPU's device node, once, and checks whether the GPU answers. */
nvmlReturn_t session_attach(nvmlDevice_t device)
{
	struct sim_gpu gpu;

	if (!__atomic_load_n(&device->attached, __ATOMIC_RELAXED)) {
		enum access access = place_access_gpu(device->slot);
		if (access == ACCESS_DENIED || access == ACCESS_BLOCKED)
			return NVML_ERROR_NO_PERMISSION;
		if (access != ACCESS_ALLOWED)
			return NVML_ERROR_UNKNOWN;
	}
	nvmlReturn_t r = read_gpu(device, &gpu);
	if (r == NVML_SUCCESS && gpu.lost == SIM_LOST)
		r = NVML_ERROR_GPU_IS_LOST;
	if (r == NVML_SUCCESS)
		__atomic_store_n(&device->attached, 1, __ATOMIC_RELAXED);
	return r;
}

nvmlReturn_t copy_string(char *to, unsigned int length, const char *from)
{
	size_t need = strlen(from) + 1;

	REQUIRE(to != NULL);
	if (length < need)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(to, from, need);
	return NVML_SUCCESS;
}
