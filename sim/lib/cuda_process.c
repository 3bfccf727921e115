/* cuda_process.c: this process in the list of processes that use a device. If the
 * state is read-only, as in containers, the process is not listed. */
#include "cuda_driver.h"

/* process_begin lists the process on a device, before it makes a context. */
CUresult process_begin(struct device *device)
{
	struct seen seen;

	if (device->contexts > 0)
		return CUDA_SUCCESS;
	TRY(cuda_read(device, &seen));
	sim_self(device->gpu, &device->self);
	device->self.mps = mps_client();
	if (seen.ci.generation != 0) {
		device->self.gi = seen.ci.gi;
		device->self.ci = seen.ci.id;
	}
	switch (sim_start_proc(cuda_sim(), &device->self)) {
	case SIM_NOT_FOUND: /* the instance was destroyed after cuda_read */
	case SIM_GPU_IS_LOST:
	case SIM_IN_USE: /* the compute mode does not admit the process */
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	default:
		return CUDA_SUCCESS;
	}
}

/* process_update records how much memory the process uses now. With its last
 * context, process_update removes the process from the list. */
void process_update(struct device *device)
{
	device->self.memory = device->used;
	if (device->contexts > 0)
		sim_put_proc(cuda_sim(), &device->self);
	else
		sim_drop_proc(cuda_sim(), &device->self);
}

/* unload removes the process from all lists when the library is unloaded. */
__attribute__((destructor)) static void unload(void)
{
	for (int i = 0; i < cuda_device_count(); i++) {
		struct device *device = cuda_device(i);

		if (device->contexts > 0)
			sim_drop_proc(cuda_sim(), &device->self);
	}
	cuda_close();
}

/* process_others returns the memory that other processes use on the GPU of a
 * device or, for a MIG device, in its GPU instance. */
uint64_t process_others(const struct device *device, const struct seen *seen)
{
	struct sim_scope scope = {
		.gpu = device->gpu,
		.gi = seen->ci.generation != 0 ? seen->ci.gi : SIM_NO_INSTANCE,
		.ci = SIM_NO_INSTANCE,
	};
	struct sim_proc proc[SIM_MAX_PROCS];
	uint32_t n = sim_procs_on(cuda_sim(), scope, proc, SIM_MAX_PROCS);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (proc[i].pid != device->self.pid || proc[i].ns != device->self.ns)
			bytes += proc[i].memory;
	}
	return bytes;
}
