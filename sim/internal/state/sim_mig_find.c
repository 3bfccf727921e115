/* sim_mig_find.c: look-ups in a copy of a GPU's Multi-Instance state. */
#include "simstate.h"

#include <string.h>

#include "sim_mig_rules.h"

const struct sim_gi *sim_gi_by_id(const struct sim_mig *mig, uint32_t id)
{
	for (uint32_t i = 0; i < mig->gis; i++) {
		if (mig->gi[i].id == id)
			return &mig->gi[i];
	}
	return NULL;
}

const struct sim_gi *sim_gi_by_generation(const struct sim_mig *mig, uint64_t generation)
{
	for (uint32_t i = 0; i < mig->gis; i++) {
		if (mig->gi[i].generation == generation)
			return &mig->gi[i];
	}
	return NULL;
}

const struct sim_ci *sim_ci_by_id(const struct sim_mig *mig, uint32_t gi, uint32_t id)
{
	for (uint32_t i = 0; i < mig->cis; i++) {
		if (mig->ci[i].gi == gi && mig->ci[i].id == id)
			return &mig->ci[i];
	}
	return NULL;
}

const struct sim_ci *sim_ci_by_generation(const struct sim_mig *mig, uint64_t generation)
{
	for (uint32_t i = 0; i < mig->cis; i++) {
		if (mig->ci[i].generation == generation)
			return &mig->ci[i];
	}
	return NULL;
}

const struct sim_ci *sim_ci_by_uuid(const struct sim_mig *mig, const char *uuid)
{
	for (uint32_t i = 0; i < mig->cis; i++) {
		if (strcmp(mig->ci[i].uuid, uuid) == 0)
			return &mig->ci[i];
	}
	return NULL;
}

const struct sim_ci *sim_ci_at(const struct sim_mig *mig, uint32_t index)
{
	return index < mig->cis ? &mig->ci[index] : NULL;
}

/* The placements of one profile do not overlap each other, so the number of free
 * placements is the capacity. */
uint32_t sim_gi_capacity(const struct sim_board *board, const struct sim_mig *mig,
			 const struct sim_gi_profile *profile)
{
	struct sim_mig with = *mig;
	uint32_t start, n = 0;

	while (sim_gi_place(board, &with, profile, &start) == SIM_SUCCESS) {
		with.gi[with.gis++] = (struct sim_gi){.profile = profile->profile, .start = start, .size = profile->size};
		n++;
	}
	return n;
}

uint32_t sim_ci_capacity(const struct sim_mig *mig, const struct sim_gi *gi,
			 const struct sim_ci_profile *profile)
{
	struct sim_mig with = *mig;
	uint32_t start, n = 0;

	while (sim_ci_place(&with, gi, profile, &start) == SIM_SUCCESS) {
		with.ci[with.cis++] = (struct sim_ci){
			.gi = gi->id, .profile = profile->profile, .start = start, .size = profile->slices};
		n++;
	}
	return n;
}

/* The driver numbers the capabilities of all possible instances: each GPU has 15
 * GPU instances, and each of them has one minor for itself and 8 for its compute
 * instances. */
#define FIRST_MINOR 3
#define MINORS_PER_GI 9
#define MINORS_PER_GPU (15 * MINORS_PER_GI)

uint32_t sim_gi_minor(uint32_t gpu_minor, uint32_t gi)
{
	return FIRST_MINOR + MINORS_PER_GPU * gpu_minor + MINORS_PER_GI * gi;
}

uint32_t sim_ci_minor(uint32_t gpu_minor, uint32_t gi, uint32_t ci)
{
	return sim_gi_minor(gpu_minor, gi) + 1 + ci;
}
