/* event.c: sets of GPU events, and waiting for them. Kind: simulated. */
#include "mig.h"

#include <pthread.h>
#include <stdlib.h>

/* Events that every GPU supports. */
#define SUPPORTED                                                              \
	(nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError |     \
	 nvmlEventTypePState | nvmlEventTypeXidCriticalError | nvmlEventTypeClock | \
	 nvmlEventTypeGpuRecoveryAction)

/* The events of one GPU that a set listens to. */
struct registration {
	unsigned long long types;
	uint64_t generation;
	uint64_t since; /* number of the latest event at the registration */
};

struct nvmlEventSet_st {
	struct nvmlEventSet_st *next;
	pthread_mutex_t mutex; /* guards the fields below */
	uint64_t seen;         /* number of the latest event read */
	struct registration gpu[SIM_MAX_GPUS]; /* by slot */
};

/* The existing sets. A handle is checked against them before use. */
static struct {
	pthread_mutex_t mutex;
	struct nvmlEventSet_st *first;
} sets = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* position returns the link to the set in the list. The caller holds the lock. */
static struct nvmlEventSet_st **position(nvmlEventSet_t set)
{
	struct nvmlEventSet_st **at = &sets.first;

	while (*at != NULL && *at != set)
		at = &(*at)->next;
	return at;
}

static bool known(nvmlEventSet_t set)
{
	pthread_mutex_lock(&sets.mutex);
	bool found = set != NULL && *position(set) != NULL;
	pthread_mutex_unlock(&sets.mutex);
	return found;
}

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	struct nvmlEventSet_st *s;

	ENTER(nvmlEventSetCreate);
	REQUIRE(set != NULL);
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NVML_ERROR_MEMORY;
	pthread_mutex_init(&s->mutex, NULL);
	s->seen = sim_posted(session_sim());
	pthread_mutex_lock(&sets.mutex);
	s->next = sets.first;
	sets.first = s;
	pthread_mutex_unlock(&sets.mutex);
	*set = s;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	ENTER(nvmlEventSetFree);
	REQUIRE(set != NULL);
	pthread_mutex_lock(&sets.mutex);
	struct nvmlEventSet_st **at = position(set), *found = *at;
	if (found != NULL)
		*at = found->next;
	pthread_mutex_unlock(&sets.mutex);
	REQUIRE(found != NULL);
	pthread_mutex_destroy(&found->mutex);
	free(found);
	return NVML_SUCCESS;
}

static unsigned long long supported(const struct sim_gpu *gpu)
{
	return SUPPORTED | (sim_board(session_sim(), gpu) != NULL ? nvmlEventMigConfigChange : 0);
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
	ENTER_DEVICE(nvmlDeviceGetSupportedEventTypes, device, gpu);
	REQUIRE(types != NULL);
	*types = supported(&gpu);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
	ENTER_DEVICE(nvmlDeviceRegisterEvents, device, gpu);
	REQUIRE(known(set) && (types & ~(unsigned long long)nvmlEventTypeAll) == 0);
	if ((types & ~supported(&gpu)) != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&set->mutex);
	struct registration *reg = &set->gpu[device->slot];
	if (reg->generation != gpu.generation) {
		*reg = (struct registration){
			.generation = gpu.generation,
			.since = sim_posted(session_sim()),
		};
	}
	reg->types |= types;
	pthread_mutex_unlock(&set->mutex);
	return NVML_SUCCESS;
}

/* permitted reports whether the process may receive an event. nvml.h: without
 * privileges "only the events which affect all the instances (i.e. whole
 * device) are reported". */
static bool permitted(const struct sim_event *event)
{
	return event->gpu_instance == SIM_NO_INSTANCE || capability_monitor();
}

/* take returns the next event that the set listens to. */
static bool take(struct nvmlEventSet_st *set, struct sim_event *event)
{
	bool found = false;

	pthread_mutex_lock(&set->mutex);
	while (!found && sim_next_event(session_sim(), &set->seen, event)) {
		if (event->kind != SIM_EVENT_GPU || event->slot >= SIM_MAX_GPUS)
			continue;
		const struct registration *reg = &set->gpu[event->slot];
		found = reg->generation == event->generation && (reg->types & event->type) != 0 &&
			event->number > reg->since && permitted(event);
	}
	pthread_mutex_unlock(&set->mutex);
	return found;
}

/* lost reports whether a GPU that the set listens to has fallen off the bus or
 * was unplugged. */
static bool lost(struct nvmlEventSet_st *set)
{
	struct sim_gpu gpu;
	bool found = false;

	pthread_mutex_lock(&set->mutex);
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS && !found; slot++) {
		if (set->gpu[slot].generation == 0)
			continue;
		sim_read_gpu(session_sim(), slot, &gpu);
		found = gpu.generation != set->gpu[slot].generation || gpu.lost != SIM_PRESENT;
	}
	pthread_mutex_unlock(&set->mutex);
	return found;
}

static uint64_t seen(struct nvmlEventSet_st *set)
{
	pthread_mutex_lock(&set->mutex);
	uint64_t number = set->seen;
	pthread_mutex_unlock(&set->mutex);
	return number;
}

/* wait_for returns the next event of the set. If no events are left and a GPU of
 * the set is lost, every wait returns GPU_IS_LOST immediately, as with the driver
 * after XID 79. */
static nvmlReturn_t wait_for(nvmlEventSet_t set, struct sim_event *event, unsigned int timeout_ms)
{
	int64_t deadline = sim_now_ns() + (int64_t)timeout_ms * 1000000;

	for (;;) {
		/* An event that is posted after this check ends the wait below. */
		uint64_t posted = sim_posted(session_sim());
		if (take(set, event))
			return NVML_SUCCESS;
		if (!sim_loaded(session_sim()))
			return NVML_ERROR_DRIVER_NOT_LOADED;
		if (lost(set))
			return NVML_ERROR_GPU_IS_LOST;
		if (seen(set) < posted)
			continue;
		if (!sim_wait_event(session_sim(), seen(set), deadline))
			return NVML_ERROR_TIMEOUT;
	}
}

/* fill writes an event to data. The first version of nvmlEventData_t ends before
 * the instances. All fields except the GPU and the type are for XIDs only
 * (nvml.h). */
static nvmlReturn_t fill(const struct sim_event *event, nvmlEventData_t *data, bool instances)
{
	bool xid = event->type == nvmlEventTypeXidCriticalError;

	data->device = session_find(event->slot, event->generation);
	data->eventType = event->type;
	data->eventData = xid ? event->data : 0;
	if (instances) {
		data->gpuInstanceId = xid ? event->gpu_instance : SIM_NO_INSTANCE;
		data->computeInstanceId = xid ? event->compute_instance : SIM_NO_INSTANCE;
	}
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	struct sim_event event;

	ENTER(nvmlEventSetWait_v2);
	REQUIRE(data != NULL && known(set));
	nvmlReturn_t r = wait_for(set, &event, timeout_ms);
	return r == NVML_SUCCESS ? fill(&event, data, true) : r;
}

EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	struct sim_event event;

	ENTER(nvmlEventSetWait);
	REQUIRE(data != NULL && known(set));
	nvmlReturn_t r = wait_for(set, &event, timeout_ms);
	return r == NVML_SUCCESS ? fill(&event, data, false) : r;
}
