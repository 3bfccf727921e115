/* process_use.c: the utilization of a GPU by processes.
 *
 * The driver samples processes at times, and keeps the samples for a while. Here,
 * the samples follow from the state. A process that used the GPU during a whole
 * period has one sample for the period. Only the latest period is returned.
 * Kind: simulated. */
#include "counter.h"

#define PERIOD_US 166667ull

struct sample {
	uint64_t at; /* us since 1970 */
	struct sim_proc proc;
};

/* uses reports whether a process has a utilization. nvml.h: samples are for
 * processes "that had some non-zero utilization during the last sample period". */
static bool uses(const struct sim_proc *proc)
{
	for (int i = 0; i < SIM_USES; i++) {
		if (proc->use[i] != 0)
			return true;
	}
	return false;
}

/* latest returns the samples that are newer than the time stamp seen. */
static uint32_t latest(const struct sim_gpu *gpu, unsigned long long seen, struct sample *out)
{
	struct sim_proc proc[SIM_MAX_PROCS];
	struct sim_scope all = {mig_ref(gpu), SIM_NO_INSTANCE, SIM_NO_INSTANCE};
	uint32_t n = sim_procs_on(session_sim(), all, proc, SIM_MAX_PROCS), found = 0;
	uint64_t now = counter_now_us(), at = now - now % PERIOD_US;

	for (uint32_t i = 0; i < n && i < SIM_MAX_PROCS; i++) {
		if (uses(&proc[i]) && at > seen && at >= proc[i].used_at + PERIOD_US)
			out[found++] = (struct sample){at, proc[i]};
	}
	return found;
}

/* prepare returns the samples for an array with *count entries, and sets *count to
 * the number of samples. nvml.h: on MIG-enabled GPUs this "is not currently
 * supported", and the result is NOT_FOUND "if sample entries are not found". */
static nvmlReturn_t prepare(const struct mig_view *view, unsigned long long seen, const void *array, unsigned int *count,
			    struct sample *out)
{
	if (view->mig.mode)
		return NVML_ERROR_NOT_SUPPORTED;
	uint32_t room = array != NULL ? *count : 0, n = latest(&view->gpu, seen, out);
	if (n == 0)
		return NVML_ERROR_NOT_FOUND;
	*count = n;
	return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
						    unsigned int *count, unsigned long long seen)
{
	struct sample sample[SIM_MAX_PROCS];

	ENTER_VIEW(nvmlDeviceGetProcessUtilization, mig_view_gpu, device, view);
	REQUIRE(count != NULL);
	nvmlReturn_t r = prepare(&view, seen, utilization, count, sample);
	for (uint32_t i = 0; r == NVML_SUCCESS && i < *count; i++)
		utilization[i] = (nvmlProcessUtilizationSample_t){
			.pid = sample[i].proc.pid,
			.timeStamp = sample[i].at,
			.smUtil = sample[i].proc.use[SIM_USE_SM],
			.memUtil = sample[i].proc.use[SIM_USE_MEMORY],
			.encUtil = sample[i].proc.use[SIM_USE_ENCODER],
			.decUtil = sample[i].proc.use[SIM_USE_DECODER],
		};
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	struct sample sample[SIM_MAX_PROCS];

	ENTER_VIEW(nvmlDeviceGetProcessesUtilizationInfo, mig_view_gpu, device, view);
	REQUIRE(info != NULL);
	REQUIRE_VERSION(info->version, nvmlProcessesUtilizationInfo_v1);
	nvmlReturn_t r = prepare(&view, info->lastSeenTimeStamp, info->procUtilArray, &info->processSamplesCount, sample);
	for (uint32_t i = 0; r == NVML_SUCCESS && i < info->processSamplesCount; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.timeStamp = sample[i].at,
			.pid = sample[i].proc.pid,
			.smUtil = sample[i].proc.use[SIM_USE_SM],
			.memUtil = sample[i].proc.use[SIM_USE_MEMORY],
			.encUtil = sample[i].proc.use[SIM_USE_ENCODER],
			.decUtil = sample[i].proc.use[SIM_USE_DECODER],
			.jpgUtil = sample[i].proc.use[SIM_USE_JPEG],
			.ofaUtil = sample[i].proc.use[SIM_USE_OFA],
		};
	return r;
}
