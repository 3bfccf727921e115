/* sim_mig_tables.c: look-ups in the tables of Multi-Instance GPU. */
#include "simstate.h"

#include <stdio.h>
#include <string.h>

#define PUBLISHED "as published by NVIDIA (MIG user guide)"
#define COUNTED "follows from the published number of instances"

/* The compute instances of a GPU instance, by its compute slices. profile is a
 * number of NVML_COMPUTE_INSTANCE_PROFILE_…; starts has bit n set for a start at
 * compute slice n. */
static const struct {
	uint32_t gi_slices, profile, id, slices, starts, max;
	bool verified;
	const char *source;
} ci_rows[] = {
	{1, 0, 0, 1, 0x01, 1, 0, PUBLISHED},
	{2, 0, 0, 1, 0x03, 2, 0, PUBLISHED},
	{2, 1, 1, 2, 0x01, 1, 0, PUBLISHED},
	{3, 0, 0, 1, 0x07, 3, 0, PUBLISHED},
	{3, 1, 1, 2, 0x01, 1, 0, PUBLISHED},
	{3, 2, 2, 3, 0x01, 1, 0, PUBLISHED},
	{4, 0, 0, 1, 0x0f, 4, 0, PUBLISHED},
	{4, 1, 1, 2, 0x05, 2, 0, PUBLISHED},
	{4, 3, 3, 4, 0x01, 1, 0, PUBLISHED},
	{7, 0, 0, 1, 0x7f, 7, 0, PUBLISHED},
	{7, 1, 1, 2, 0x15, 3, 0, COUNTED},
	{7, 2, 2, 3, 0x09, 2, 0, COUNTED},
	{7, 3, 3, 4, 0x01, 1, 0, COUNTED},
	{7, 4, 4, 7, 0x01, 1, 0, PUBLISHED},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

const struct sim_gi_profile *sim_gi_profile(const struct sim_board *board, uint32_t profile)
{
	for (size_t i = 0; i < SIM_GI_PROFILES && board->profile[i].name[0] != '\0'; i++) {
		if (board->profile[i].profile == profile)
			return &board->profile[i];
	}
	return NULL;
}

const struct sim_gi_profile *sim_gi_profile_by_id(const struct sim_board *board, uint32_t id)
{
	for (size_t i = 0; i < SIM_GI_PROFILES && board->profile[i].name[0] != '\0'; i++) {
		if (board->profile[i].id == id)
			return &board->profile[i];
	}
	return NULL;
}

/* fill describes a row for a GPU instance. A part of a GPU instance has the SMs
 * of its slices. The whole may have more SMs, such as 3g on Hopper.
 * 0: unknown. */
static void fill(const struct sim_board *board, const struct sim_gi_profile *gi, size_t row,
		 struct sim_ci_profile *out)
{
	uint32_t slices = ci_rows[row].slices;

	*out = (struct sim_ci_profile){
		.profile = ci_rows[row].profile,
		.id = ci_rows[row].id,
		.slices = slices,
		.starts = ci_rows[row].starts,
		.max = ci_rows[row].max,
		.sms = slices == gi->slices || gi->sms == 0 ? gi->sms : slices * board->slice_sms,
		.verified = ci_rows[row].verified,
		.source = ci_rows[row].source,
	};
	if (slices == gi->slices)
		snprintf(out->name, sizeof(out->name), "%s", gi->name);
	else
		snprintf(out->name, sizeof(out->name), "%uc.%s", slices, gi->name);
}

bool sim_ci_profile(const struct sim_board *board, const struct sim_gi_profile *gi, uint32_t profile,
		    struct sim_ci_profile *out)
{
	for (size_t i = 0; i < LENGTH(ci_rows); i++) {
		if (ci_rows[i].gi_slices == gi->slices && ci_rows[i].profile == profile) {
			fill(board, gi, i, out);
			return true;
		}
	}
	return false;
}

bool sim_ci_profile_by_id(const struct sim_board *board, const struct sim_gi_profile *gi, uint32_t id,
			  struct sim_ci_profile *out)
{
	for (size_t i = 0; i < LENGTH(ci_rows); i++) {
		if (ci_rows[i].gi_slices == gi->slices && ci_rows[i].id == id) {
			fill(board, gi, i, out);
			return true;
		}
	}
	return false;
}

/* A MIG device has at least one compute slice. */
uint32_t sim_max_mig_devices(const struct sim_board *board)
{
	return board->compute_slices;
}
