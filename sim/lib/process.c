/* process.c: the processes that use a GPU or a MIG device. Kind: simulated. */
#include "process.h"

/* The fields of an array entry. The entry of the first version ends before the
 * instances. */
enum shape { PLAIN, WITH_INSTANCES };

/* Each process is in one group. */
enum group { OUTSIDE_MPS, MPS_CLIENTS };

uint64_t processes_memory(struct sim_scope scope)
{
	struct sim_proc proc[SIM_MAX_PROCS];
	uint32_t n = sim_procs_on(session_sim(), scope, proc, SIM_MAX_PROCS);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += proc[i].memory;
	return bytes;
}

/* scope_of returns the GPU or MIG device of a handle. nvml.h: for a GPU in MIG
 * mode, the result is "aggregate information, only if the caller has appropriate
 * privileges". */
static nvmlReturn_t scope_of(nvmlDevice_t device, struct sim_scope *scope)
{
	struct mig_view view;
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : mig_view_gpu(device, &view);

	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(mig || !view.mig.mode || capability_monitor());
	*scope = (struct sim_scope){
		.gpu = mig_ref(&view.gpu),
		.gi = mig ? view.gi->id : SIM_NO_INSTANCE,
		.ci = mig ? view.ci->id : SIM_NO_INSTANCE,
	};
	return NVML_SUCCESS;
}

static void put(void *array, enum shape shape, uint32_t i, const struct sim_proc *proc)
{
	if (shape == PLAIN)
		((nvmlProcessInfo_v1_t *)array)[i] = (nvmlProcessInfo_v1_t){.pid = proc->pid, .usedGpuMemory = proc->memory};
	else
		((nvmlProcessInfo_v2_t *)array)[i] = (nvmlProcessInfo_v2_t){
			.pid = proc->pid,
			.usedGpuMemory = proc->memory,
			.gpuInstanceId = proc->gi,
			.computeInstanceId = proc->ci,
		};
}

/* keep moves the processes of a group to the beginning, and returns their number. */
static uint32_t keep(enum group group, struct sim_proc *proc, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n && i < SIM_MAX_PROCS; i++) {
		if ((proc[i].mps != 0) == (group == MPS_CLIENTS))
			proc[kept++] = proc[i];
	}
	return kept;
}

/* list fills an array of *count entries. nvml.h: if the array is too small, the
 * result is INSUFFICIENT_SIZE, and *count is the necessary size. */
static nvmlReturn_t list(nvmlDevice_t device, unsigned int *count, void *array, enum shape shape, enum group group)
{
	struct sim_proc proc[SIM_MAX_PROCS];
	struct sim_scope scope;

	REQUIRE(count != NULL && (*count == 0 || array != NULL));
	nvmlReturn_t r = scope_of(device, &scope);
	if (r != NVML_SUCCESS)
		return r;
	uint32_t room = *count, n = keep(group, proc, sim_procs_on(session_sim(), scope, proc, SIM_MAX_PROCS));
	*count = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (uint32_t i = 0; i < n; i++)
		put(array, shape, i, &proc[i]);
	return NVML_SUCCESS;
}

/* none returns an empty list, for a kind of process that the simulator does not
 * have. */
static nvmlReturn_t none(nvmlDevice_t device, unsigned int *count, const void *array)
{
	struct sim_scope scope;

	REQUIRE(count != NULL && (*count == 0 || array != NULL));
	nvmlReturn_t r = scope_of(device, &scope);
	if (r == NVML_SUCCESS)
		*count = 0;
	return r;
}

#define LIST(name, type, answer)                                               \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, type *infos) \
	{                                                                      \
		ENTER(name);                                                   \
		return answer;                                                 \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, list(device, count, infos, PLAIN, OUTSIDE_MPS))
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, list(device, count, infos, WITH_INSTANCES, OUTSIDE_MPS))
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, list(device, count, infos, WITH_INSTANCES, OUTSIDE_MPS))
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, list(device, count, infos, PLAIN, MPS_CLIENTS))
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, list(device, count, infos, WITH_INSTANCES, MPS_CLIENTS))
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, list(device, count, infos, WITH_INSTANCES, MPS_CLIENTS))

/* Kind: static. */
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, none(device, count, infos))
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, none(device, count, infos))
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, none(device, count, infos))
