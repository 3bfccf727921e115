/* sim_reset.c: the reset of a GPU, and the MIG state after a restart. */
#include "simstate.h"

#include <string.h>

#include "sim_mig_change.h"

#define RECOVERY_NODE_REBOOT 2 /* NVML_GPU_RECOVERY_ACTION_NODE_REBOOT */

static void post_lost(struct sim *sim, const struct sim_gpu *gpu)
{
	struct sim_event event = {.kind = SIM_EVENT_LOST, .slot = gpu->minor, .generation = gpu->generation};

	sim_post(sim, &event);
}

/* An Ampere GPU keeps the mode, and activates a pending mode at a reset. For
 * later GPUs, the driver keeps the mode. It is not known whether a reset of such
 * a GPU ends the mode. Here, it does not. */
void sim_restart_mig(struct sim *sim, uint32_t slot, enum sim_restart what)
{
	struct sim_mig mig, before;
	struct sim_gpu gpu;

	sim_read_gpu(sim, slot, &gpu);
	const struct sim_board *board = sim_board(sim, &gpu);
	if (gpu.generation == 0 || board == NULL)
		return;
	sim_read_mig(sim, slot, &before);
	mig = before;
	sim_clear_instances(&mig);
	if (what != SIM_RESTART_DRIVER)
		mig.mode = mig.pending;
	if (what != SIM_RESTART_GPU && !board->mode_needs_reset)
		mig.mode = mig.pending = 0;
	if (memcmp(&mig, &before, sizeof(mig)) == 0)
		return;
	sim_write_mig(sim, slot, &mig);
	sim_show(sim, slot);
	sim_post_mig_change(sim, (struct sim_ref){slot, gpu.generation});
}

void sim_restart_counters(struct sim *sim, uint32_t slot, enum sim_recount what)
{
	struct sim_telemetry t;

	sim_read_telemetry(sim, slot, &t);
	sim_recount(&t, what);
	sim_write_telemetry(sim, slot, &t);
}

/* begin_gpu takes the lock and reads the GPU. It releases the lock if it does not
 * return SUCCESS. */
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
	else if (sim_in_use(sim, all))
		status = SIM_IN_USE;
	if (status == SIM_SUCCESS) {
		gpu.lost = SIM_LOST;
		gpu.resets++;
		gpu.remap_pending = 0;
		gpu.memory_used = 0;
		gpu.ecc = gpu.ecc_pending;
		if (gpu.recovery != RECOVERY_NODE_REBOOT)
			gpu.recovery = 0;
		sim_write_gpu(sim, ref.slot, &gpu);
		sim_restart_counters(sim, ref.slot, SIM_RECOUNT_RESET);
		post_lost(sim, &gpu);
		sim_restart_mig(sim, ref.slot, SIM_RESTART_GPU);
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

enum sim_status sim_clear_ecc(struct sim *sim, struct sim_ref ref, uint32_t counter)
{
	struct sim_telemetry t;
	struct sim_gpu gpu;
	enum sim_status status = begin_gpu(sim, ref, &gpu);

	if (status != SIM_SUCCESS)
		return status;
	sim_read_telemetry(sim, ref.slot, &t);
	memset(t.counters.ecc[counter], 0, sizeof(t.counters.ecc[counter]));
	sim_write_telemetry(sim, ref.slot, &t);
	sim_unlock(sim);
	return SIM_SUCCESS;
}
