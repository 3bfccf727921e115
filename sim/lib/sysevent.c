/* sysevent.c: system events about plugged and unplugged GPUs. Kind: simulated. */
#include "session.h"

#include <stdlib.h>

/* System events identify a GPU by its place on the PCI bus. */
struct nvmlSystemEventSet_st {
	unsigned long long types;
	uint64_t seen;
};

EXPORT nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_t *request)
{
	ENTER(nvmlSystemEventSetCreate);
	REQUIRE(request != NULL);
	REQUIRE_VERSION(request->version, nvmlSystemEventSetCreateRequest_v1);
	request->set = calloc(1, sizeof(*request->set));
	if (request->set == NULL)
		return NVML_ERROR_MEMORY;
	request->set->seen = sim_posted(session_sim());
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_t *request)
{
	ENTER(nvmlSystemEventSetFree);
	REQUIRE(request != NULL);
	REQUIRE_VERSION(request->version, nvmlSystemEventSetFreeRequest_v1);
	REQUIRE(request->set != NULL);
	free(request->set);
	request->set = NULL;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_t *request)
{
	const unsigned long long all = nvmlSystemEventTypeGpuDriverUnbind | nvmlSystemEventTypeGpuDriverBind;

	ENTER(nvmlSystemRegisterEvents);
	REQUIRE(request != NULL);
	REQUIRE_VERSION(request->version, nvmlSystemRegisterEventRequest_v1);
	REQUIRE(request->set != NULL && (request->eventTypes & ~all) == 0);
	if (request->set->types == 0)
		request->set->seen = sim_posted(session_sim());
	request->set->types |= request->eventTypes;
	return NVML_SUCCESS;
}

static unsigned long long type(const struct sim_event *event)
{
	switch (event->kind) {
	case SIM_EVENT_PLUGGED: return nvmlSystemEventTypeGpuDriverBind;
	case SIM_EVENT_UNPLUGGED: return nvmlSystemEventTypeGpuDriverUnbind;
	default: return 0;
	}
}

/* collect fills the request with the events that have already happened. */
static void collect(nvmlSystemEventSetWaitRequest_t *request)
{
	struct sim_event event;

	while (request->numEvent < request->dataSize &&
	       sim_next_event(session_sim(), &request->set->seen, &event)) {
		if ((type(&event) & request->set->types) == 0)
			continue;
		request->data[request->numEvent++] = (nvmlSystemEventData_v1_t){
			.eventType = type(&event),
			.gpuId = (unsigned int)event.data,
		};
	}
}

EXPORT nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_t *request)
{
	ENTER(nvmlSystemEventSetWait);
	REQUIRE(request != NULL);
	REQUIRE_VERSION(request->version, nvmlSystemEventSetWaitRequest_v1);
	REQUIRE(request->set != NULL && request->data != NULL && request->dataSize > 0);
	int64_t deadline = sim_now_ns() + (int64_t)request->timeoutms * 1000000;

	request->numEvent = 0;
	do {
		collect(request);
		if (request->numEvent > 0)
			return NVML_SUCCESS;
	} while (sim_wait_event(session_sim(), request->set->seen, deadline));
	return NVML_ERROR_TIMEOUT;
}
