/* sim_compute.c: compute modes, and the processes that they admit. */
#include "simstate.h"

#include "sim_mark.h"

/* mode_for returns the compute mode of the GPU or MIG device of an entry. */
static uint32_t mode_for(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_gpu gpu;
	struct sim_mig mig;

	sim_read_gpu(sim, proc->slot, &gpu);
	if (proc->gi == SIM_NO_INSTANCE)
		return gpu.compute_mode;
	sim_read_mig(sim, proc->slot, &mig);
	const struct sim_ci *ci = sim_ci_by_id(&mig, proc->gi, proc->ci);
	return ci != NULL ? ci->compute_mode : SIM_COMPUTE_DEFAULT;
}

/* others reports whether the table has another process on the GPU or MIG device of
 * an entry. Clients of MPS do not count: their server does. */
static bool others(struct sim *sim, const struct sim_proc *proc, struct sim_scope scope)
{
	struct sim_proc list[SIM_MAX_PROCS];
	uint32_t n = sim_procs_on(sim, scope, list, SIM_MAX_PROCS);

	for (uint32_t i = 0; i < n; i++) {
		if (!list[i].mps && (list[i].pid != proc->pid || list[i].ns != proc->ns))
			return true;
	}
	return false;
}

/* mark_alone marks the GPU or MIG device as used by this process, unless another
 * process has a mark. A process that can only read the state can take the lock,
 * too. With it, only one of several processes that start at once is the first. */
static bool mark_alone(struct sim *sim, const struct sim_proc *proc, struct sim_scope scope)
{
	sim_lock(sim);
	bool alone = !sim_marked(sim, scope) && sim_mark(sim, proc);
	sim_unlock(sim);
	return alone;
}

enum sim_status sim_start_proc(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_scope scope = {{proc->slot, proc->generation}, proc->gi, proc->ci};

	if (proc->mps) /* the mode has admitted its server */
		return sim_put_proc(sim, proc);
	switch (mode_for(sim, proc)) {
	case SIM_COMPUTE_PROHIBITED:
		return SIM_IN_USE;
	case SIM_COMPUTE_EXCLUSIVE_PROCESS:
		if (others(sim, proc, scope) || !mark_alone(sim, proc, scope))
			return SIM_IN_USE;
		break;
	default:
		break;
	}
	return sim_put_proc(sim, proc);
}

/* set_instance sets the mode of a MIG device. */
static enum sim_status set_instance(struct sim *sim, uint32_t slot, uint64_t instance, uint32_t mode)
{
	struct sim_mig mig;

	sim_read_mig(sim, slot, &mig);
	for (uint32_t i = 0; i < mig.cis; i++) {
		if (mig.ci[i].generation == instance) {
			mig.ci[i].compute_mode = mode;
			sim_write_mig(sim, slot, &mig);
			return SIM_SUCCESS;
		}
	}
	return SIM_NOT_FOUND;
}

enum sim_status sim_set_compute_mode(struct sim *sim, struct sim_ref ref, uint64_t instance, uint32_t mode)
{
	enum sim_status status = SIM_GPU_IS_LOST;
	struct sim_gpu gpu;

	if (!sim_writable(sim))
		return SIM_NO_PERMISSION;
	sim_lock(sim);
	sim_read_gpu(sim, ref.slot, &gpu);
	if (gpu.generation == ref.generation) {
		status = SIM_SUCCESS;
		if (instance != 0) {
			status = set_instance(sim, ref.slot, instance, mode);
		} else {
			gpu.compute_mode = mode;
			sim_write_gpu(sim, ref.slot, &gpu);
		}
	}
	sim_unlock(sim);
	return status;
}
