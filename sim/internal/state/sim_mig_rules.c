/* sim_mig_rules.c: the rules of a board for new instances. */
#include "sim_mig_rules.h"

#include <stddef.h>

static bool overlap(uint32_t a, uint32_t a_size, uint32_t b, uint32_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

/* The media engines, which instances do not share. */
struct engines {
	uint32_t decoder, encoder, jpeg, ofa;
};

static struct engines engines(const struct sim_gi_profile *profile)
{
	return (struct engines){profile->decoder, profile->encoder, profile->jpeg, profile->ofa};
}

static void add(struct engines *sum, struct engines more)
{
	sum->decoder += more.decoder;
	sum->encoder += more.encoder;
	sum->jpeg += more.jpeg;
	sum->ofa += more.ofa;
}

/* enough reports whether a board has these engines: the most that one profile has. */
static bool enough(const struct sim_board *board, struct engines used)
{
	bool decoder = false, encoder = false, jpeg = false, ofa = false;

	for (uint32_t i = 0; i < SIM_GI_PROFILES; i++) {
		struct engines most = engines(&board->profile[i]);
		decoder = decoder || used.decoder <= most.decoder;
		encoder = encoder || used.encoder <= most.encoder;
		jpeg = jpeg || used.jpeg <= most.jpeg;
		ofa = ofa || used.ofa <= most.ofa;
	}
	return decoder && encoder && jpeg && ofa;
}

bool sim_gi_fits(const struct sim_board *board, const struct sim_mig *mig,
	     const struct sim_gi_profile *profile, uint32_t start)
{
	struct engines used = engines(profile);
	uint32_t slices = profile->slices, same = 0;

	if (start >= SIM_MAX_STARTS || (profile->starts >> start & 1) == 0 || mig->gis == SIM_MAX_GIS)
		return false;
	for (uint32_t i = 0; i < mig->gis; i++) {
		const struct sim_gi *gi = &mig->gi[i];
		const struct sim_gi_profile *other = sim_gi_profile(board, gi->profile);
		if (other == NULL || overlap(start, profile->size, gi->start, gi->size))
			return false;
		add(&used, engines(other));
		slices += other->slices;
		same += other == profile;
	}
	return slices <= board->compute_slices && same < profile->max && enough(board, used);
}

/* A search from the highest place leaves room for small instances if the large
 * instances are created first. */
enum sim_status sim_gi_place(const struct sim_board *board, const struct sim_mig *mig,
			     const struct sim_gi_profile *profile, uint32_t *start)
{
	for (uint32_t i = 0; i < SIM_MAX_STARTS; i++) {
		*start = board->from_below ? i : SIM_MAX_STARTS - 1 - i;
		if (sim_gi_fits(board, mig, profile, *start))
			return SIM_SUCCESS;
	}
	return SIM_INSUFFICIENT_RESOURCES;
}

bool sim_ci_fits(const struct sim_mig *mig, const struct sim_gi *gi,
	     const struct sim_ci_profile *profile, uint32_t start)
{
	uint32_t same = 0;

	if (start >= SIM_MAX_STARTS || (profile->starts >> start & 1) == 0 || mig->cis == SIM_MAX_CIS)
		return false;
	for (uint32_t i = 0; i < mig->cis; i++) {
		const struct sim_ci *ci = &mig->ci[i];
		if (ci->gi != gi->id)
			continue;
		if (overlap(start, profile->slices, ci->start, ci->size))
			return false;
		same += ci->profile == profile->profile;
	}
	return same < profile->max;
}

enum sim_status sim_ci_place(const struct sim_mig *mig, const struct sim_gi *gi,
			 const struct sim_ci_profile *profile, uint32_t *start)
{
	for (*start = 0; *start < SIM_MAX_STARTS; ++*start) {
		if (sim_ci_fits(mig, gi, profile, *start))
			return SIM_SUCCESS;
	}
	return SIM_INSUFFICIENT_RESOURCES;
}

uint32_t sim_gi_number(const struct sim_board *board, uint32_t start, uint32_t size)
{
	/* 0 is the whole, 1 and 2 the halves, 3 to 6 the quarters, from 7 on
	 * the eighths. A board of four memory slices has no eighths. */
	return board->memory_slices / size - 1 + start / size;
}
