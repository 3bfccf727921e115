/* sim_reset.c: the reset of a GPU, and what is left of MIG without driver. */
#include "simstate.h"

#include "sim_mig_change.h"

#define RECOVERY_NODE_REBOOT 2 /* NVML_GPU_RECOVERY_ACTION_NODE_REBOOT */

static void post_lost(struct sim *sim, const struct sim_gpu *gpu)
{
	struct sim_event event = {.kind = SIM_EVENT_LOST, .slot = gpu->minor, .generation = gpu->generation};

	sim_post(sim, &event);
}

/* restart gives the MIG state that a GPU without power has lost. */
static void restart(struct sim *sim, const struct sim_gpu *gpu, bool reboot)
{
	const struct sim_board *board = sim_board(gpu->model);
	struct sim_mig mig;

	if (board == NULL)
		return;
	sim_read_mig(sim, gpu->minor, &mig);
	bool changed = mig.gis > 0 || mig.mode != mig.pending;
	mig.mode = mig.pending;
	if (reboot && !board->mode_needs_reset) {
		changed = changed || mig.mode;
		mig.mode = mig.pending = 0;
	}
	sim_clear_instances(&mig);
	sim_write_mig(sim, gpu->minor, &mig);
	if (changed)
		sim_post_mig_change(sim, (struct sim_ref){gpu->minor, gpu->generation});
}

/* begin_gpu takes the lock and reads the GPU, whose lost state must be one of
 * two. Else it has given the lock back. */
static enum sim_status begin_gpu(struct sim *sim, struct sim_ref ref, struct sim_gpu *gpu)
{
	if (!sim_writable(sim))
		return SIM_NO_PERMISSION;
	sim_lock(sim);
	sim_read_gpu(sim, ref.slot, gpu);
	if (gpu->generation != 0 && gpu->generation == ref.generation)
		return SIM_SUCCESS;
	sim_unlock(sim);
	return SIM_GPU_IS_LOST;
}

enum sim_status sim_begin_reset(struct sim *sim, struct sim_ref ref)
{
	struct sim_scope all = {ref, SIM_NO_INSTANCE, SIM_NO_INSTANCE};
	struct sim_gpu gpu;
	enum sim_status status = begin_gpu(sim, ref, &gpu);

	if (status != SIM_SUCCESS)
		return status;
	if (gpu.lost != SIM_PRESENT)
		status = SIM_GPU_IS_LOST;
	else if (sim_procs_on(sim, all, NULL, 0) > 0)
		status = SIM_IN_USE;
	if (status == SIM_SUCCESS) {
		gpu.lost = SIM_LOST;
		gpu.resets++;
		gpu.remap_pending = 0;
		gpu.memory_used = 0;
		if (gpu.recovery != RECOVERY_NODE_REBOOT)
			gpu.recovery = 0;
		sim_write_gpu(sim, ref.slot, &gpu);
		post_lost(sim, &gpu);
		restart(sim, &gpu, false);
	}
	sim_unlock(sim);
	return status;
}

enum sim_status sim_end_reset(struct sim *sim, struct sim_ref ref)
{
	struct sim_gpu gpu;
	enum sim_status status = begin_gpu(sim, ref, &gpu);

	if (status != SIM_SUCCESS)
		return status;
	gpu.lost = SIM_PRESENT;
	sim_write_gpu(sim, ref.slot, &gpu);
	post_lost(sim, &gpu);
	sim_unlock(sim);
	return SIM_SUCCESS;
}
