/* sim_mig_tables.c: mig_tables.h in the form of C. */
#include "simstate.h"

#include <stdio.h>
#include <string.h>

#define MIG_BOARD(...)
#define MIG_GI(...)
#define MIG_CI(...)

static const struct sim_board boards[] = {
#undef MIG_BOARD
#define MIG_BOARD(...) {__VA_ARGS__},
#include "mig_tables.h"
#undef MIG_BOARD
#define MIG_BOARD(...)
};

static const struct {
	const char *model;
	struct sim_gi_profile profile;
} gi_rows[] = {
#undef MIG_GI
#define MIG_GI(model, ...) {model, {__VA_ARGS__}},
#include "mig_tables.h"
#undef MIG_GI
#define MIG_GI(...)
};

static const struct {
	uint32_t gi_slices, profile, id, slices, starts, max;
	bool verified;
	const char *source;
} ci_rows[] = {
#undef MIG_CI
#define MIG_CI(...) {__VA_ARGS__},
#include "mig_tables.h"
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

const struct sim_board *sim_board(const char *model)
{
	for (size_t i = 0; i < LENGTH(boards); i++) {
		if (strcmp(boards[i].model, model) == 0)
			return &boards[i];
	}
	return NULL;
}

const struct sim_gi_profile *sim_gi_profile(const struct sim_board *board, uint32_t profile)
{
	for (size_t i = 0; i < LENGTH(gi_rows); i++) {
		if (strcmp(gi_rows[i].model, board->model) == 0 && gi_rows[i].profile.profile == profile)
			return &gi_rows[i].profile;
	}
	return NULL;
}

const struct sim_gi_profile *sim_gi_profile_by_id(const struct sim_board *board, uint32_t id)
{
	for (size_t i = 0; i < LENGTH(gi_rows); i++) {
		if (strcmp(gi_rows[i].model, board->model) == 0 && gi_rows[i].profile.id == id)
			return &gi_rows[i].profile;
	}
	return NULL;
}

/* fill describes a row for a GPU instance. Part of an instance has the SMs of
 * that many slices; the whole may have more, as 3g on Hopper. */
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
		.sms = slices == gi->slices ? gi->sms : slices * board->slice_sms,
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

/* A MIG device has one compute slice at least. */
uint32_t sim_max_mig_devices(const struct sim_board *board)
{
	return board->compute_slices;
}
