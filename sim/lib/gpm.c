/* gpm.c: GPU Performance Monitoring: samples of counters, and metrics between two
 * samples. Kind: simulated. */
#include "gpm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The existing samples. A handle is checked against them before use. The lock also
 * guards their content. */
static struct {
	pthread_mutex_t mutex;
	struct nvmlGpmSample_st *first;
} samples = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void unlock(int *unused)
{
	(void)unused;
	pthread_mutex_unlock(&samples.mutex);
}

/* LOCKED holds the lock to the end of the block. */
#define LOCKED                                                                 \
	__attribute__((cleanup(unlock), unused)) int locked = pthread_mutex_lock(&samples.mutex)

/* position returns the link to a sample in the list. It needs the lock. */
static struct nvmlGpmSample_st **position(nvmlGpmSample_t sample)
{
	struct nvmlGpmSample_st **at = &samples.first;

	while (*at != NULL && *at != sample)
		at = &(*at)->next;
	return at;
}

static bool known(nvmlGpmSample_t sample)
{
	return sample != NULL && *position(sample) != NULL;
}

/* Kind: real. */
EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
	ENTER(nvmlGpmSampleAlloc);
	REQUIRE(sample != NULL);
	nvmlGpmSample_t s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NVML_ERROR_MEMORY;
	LOCKED;
	s->next = samples.first;
	samples.first = s;
	*sample = s;
	return NVML_SUCCESS;
}

/* Kind: real. */
EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
	ENTER(nvmlGpmSampleFree);
	LOCKED;
	REQUIRE(known(sample));
	*position(sample) = sample->next;
	free(sample);
	return NVML_SUCCESS;
}

/* nvml.h: "For Hopper or newer". */
static bool supported(const struct sim_gpu *gpu)
{
	return gpu->architecture >= NVML_DEVICE_ARCH_HOPPER;
}

/* engines stores the numbers of engines of a GPU, or of a GPU instance. */
static void engines(nvmlGpmSample_t s, const struct sim_gpu *gpu, const struct sim_gi_profile *profile)
{
	s->encoders = profile != NULL ? profile->encoder : gpu->encoders;
	s->decoders = profile != NULL ? profile->decoder : gpu->decoders;
	s->jpegs = profile != NULL ? profile->jpeg : gpu->jpegs;
	s->ofas = profile != NULL ? profile->ofa : gpu->ofas;
}

/* gi_work stores the activity counters of a GPU instance. */
static void gi_work(nvmlGpmSample_t s, const struct sim_telemetry *t, const struct sim_gi *gi)
{
	for (uint32_t i = 0; i < SIM_MAX_GIS; i++) {
		if (t->counters.gi[i].generation == gi->generation)
			s->work = t->counters.gi[i].work;
	}
	s->computes = false;
	for (uint32_t i = 0; i < t->mig.cis; i++)
		s->computes = s->computes || t->mig.ci[i].gi == gi->id;
}

/* fill takes a sample of a GPU, or of its instance gi. */
static nvmlReturn_t fill(nvmlGpmSample_t s, const struct mig_view *view, const struct sim_gi *gi)
{
	struct sim_telemetry t;

	if (!supported(&view->gpu))
		return NVML_ERROR_NOT_SUPPORTED;
	sim_read_telemetry(session_sim(), view->gpu.minor, &t);
	LOCKED;
	REQUIRE(known(s));
	s->gpu = view->gpu.generation;
	s->gi = gi != NULL ? gi->generation : 0;
	s->us = t.counters.since;
	s->work = t.counters.work;
	s->computes = true;
	s->links = t.gpu.links;
	memcpy(s->pcie, t.counters.pcie, sizeof(s->pcie));
	memcpy(s->link, t.counters.link, sizeof(s->link));
	engines(s, &t.gpu, gi != NULL ? sim_gi_profile(view->board, gi->profile) : NULL);
	if (gi != NULL)
		gi_work(s, &t, gi);
	return NVML_SUCCESS;
}

/* nvml.h: "This API supports the device handle and MIG device handle." */
EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
	struct mig_view view;

	ENTER(nvmlGpmSampleGet);
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : mig_view_gpu(device, &view);
	return r == NVML_SUCCESS ? fill(sample, &view, mig ? view.gi : NULL) : r;
}

EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int id, nvmlGpmSample_t sample)
{
	ENTER_VIEW(nvmlGpmMigSampleGet, mig_view_gpu, device, view);
	REQUIRE_MODE(view);
	REQUIRE_CAPABILITY(capability_monitor());
	const struct sim_gi *gi = sim_gi_by_id(&view.mig, id);
	return gi != NULL ? fill(sample, &view, gi) : NVML_ERROR_NOT_FOUND;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
	struct mig_view view;

	ENTER(nvmlGpmQueryDeviceSupport);
	REQUIRE(support != NULL);
	REQUIRE_VERSION(support->version, NVML_GPM_SUPPORT_VERSION);
	nvmlReturn_t r = mig_is_handle(device) ? mig_view_device(device, &view) : mig_view_gpu(device, &view);
	if (r == NVML_SUCCESS)
		support->isSupportedDevice = supported(&view.gpu);
	return r;
}

/* pair reports whether two samples are of the same GPU or instance, the older
 * sample first. */
static bool pair(nvmlGpmSample_t from, nvmlGpmSample_t to)
{
	return known(from) && known(to) && from->gpu != 0 && from->gpu == to->gpu && from->gi == to->gi && from->us <= to->us;
}

EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
	ENTER(nvmlGpmMetricsGet);
	REQUIRE(get != NULL);
	REQUIRE_VERSION(get->version, NVML_GPM_METRICS_GET_VERSION);
	REQUIRE(get->numMetrics > 0 && get->numMetrics <= NVML_GPM_METRIC_MAX);
	LOCKED;
	REQUIRE(pair(get->sample1, get->sample2));
	for (unsigned int i = 0; i < get->numMetrics; i++) {
		nvmlGpmMetric_t *m = &get->metrics[i];
		memset(&m->metricInfo, 0, sizeof(m->metricInfo)); /* nvml.h: "can be NULL" */
		m->value = 0;
		m->nvmlReturn = gpm_metric(m->metricId, get->sample1, get->sample2, &m->value);
	}
	return NVML_SUCCESS;
}
