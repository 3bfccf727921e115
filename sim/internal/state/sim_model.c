/* sim_model.c: look-ups in the models of a node. */
#include "simstate.h"

#include <stddef.h>

const struct sim_model *sim_model(struct sim *sim, const struct sim_gpu *gpu)
{
	return gpu->model_at < SIM_MAX_MODELS ? &sim_map(sim)->models.model[gpu->model_at] : NULL;
}

const struct sim_board *sim_board(struct sim *sim, const struct sim_gpu *gpu)
{
	const struct sim_model *model = sim_model(sim, gpu);

	return model != NULL && model->mig.compute_slices > 0 ? &model->mig : NULL;
}
