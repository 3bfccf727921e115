/* cuda_mig.c: MIG devices as CUDA devices. MIG user guide, "CUDA Device
 * Enumeration": a compute instance and its GPU instance are one CUDA device. */
#include "cuda_driver.h"

#include <stdio.h>

#include "capability.h"

/* cuda_choices lists the devices on a GPU that the process may open: the GPU
 * itself, or, if the GPU is divided, the compute instances whose capabilities the
 * process has. */
uint32_t cuda_choices(struct sim *sim, const struct sim_gpu *gpu, struct choice *out)
{
	struct sim_mig mig;
	const struct sim_ci *ci;
	uint32_t n = 0;

	sim_read_mig(sim, gpu->minor, &mig);
	if (!mig.mode) {
		out[0] = (struct choice){.gpu = *gpu, .first = true};
		return 1;
	}
	for (uint32_t i = 0; (ci = sim_ci_at(&mig, i)) != NULL; i++) {
		if (!capability_instance(gpu->minor, ci))
			continue;
		out[n] = (struct choice){.gpu = *gpu, .ci = *ci, .first = n == 0};
		n++;
	}
	return n;
}

static void see_gpu(const struct sim_gpu *gpu, struct seen *seen)
{
	*seen = (struct seen){
		.gpu = *gpu,
		.memory = gpu->memory_total - gpu->memory_reserved,
		.sms = gpu->sms,
	};
	snprintf(seen->name, sizeof(seen->name), "%s", gpu->name);
	snprintf(seen->uuid, sizeof(seen->uuid), "%s", gpu->uuid);
}

/* cuda_see describes a GPU, or one of its instances. It returns false if the
 * instance was destroyed, or if the GPU is now in MIG mode. */
bool cuda_see(struct sim *sim, const struct sim_gpu *gpu, uint64_t instance, struct seen *seen)
{
	const struct sim_board *board = sim_board(sim, gpu);
	struct sim_ci_profile profile;
	struct sim_mig mig;

	see_gpu(gpu, seen);
	sim_read_mig(sim, gpu->minor, &mig);
	if (instance == 0)
		return !mig.mode;
	const struct sim_ci *ci = sim_ci_by_generation(&mig, instance);
	const struct sim_gi *gi = ci != NULL ? sim_gi_by_id(&mig, ci->gi) : NULL;
	const struct sim_gi_profile *of_gi = gi != NULL && board != NULL ? sim_gi_profile(board, gi->profile) : NULL;
	if (of_gi == NULL || !sim_ci_profile(board, of_gi, ci->profile, &profile))
		return false;
	seen->ci = *ci;
	seen->memory = (uint64_t)of_gi->memory_mib << 20;
	seen->sms = profile.sms;
	snprintf(seen->name, sizeof(seen->name), "%s MIG %s", gpu->name, profile.name);
	snprintf(seen->uuid, sizeof(seen->uuid), "%s", ci->uuid);
	return true;
}
