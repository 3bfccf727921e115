/* sim_mig_rules.h: the places where an instance may start. */
#ifndef SIM_MIG_RULES_H
#define SIM_MIG_RULES_H

#include "simstate.h"

/* sim_gi_place finds a free place, or returns why no place is free. */
enum sim_status sim_gi_place(const struct sim_board *board, const struct sim_mig *mig,
			 const struct sim_gi_profile *profile, uint32_t *start);
/* sim_gi_fits reports whether an instance may be at a start of the profile. */
bool sim_gi_fits(const struct sim_board *board, const struct sim_mig *mig,
	     const struct sim_gi_profile *profile, uint32_t start);
enum sim_status sim_ci_place(const struct sim_mig *mig, const struct sim_gi *gi,
			 const struct sim_ci_profile *profile, uint32_t *start);
bool sim_ci_fits(const struct sim_mig *mig, const struct sim_gi *gi,
	     const struct sim_ci_profile *profile, uint32_t start);
/* sim_gi_number returns the number of the GPU instance at a place. Larger
 * instances have lower numbers, and instances of one size are numbered by their
 * start. Two places that do not overlap have different numbers. */
uint32_t sim_gi_number(const struct sim_board *board, uint32_t start, uint32_t size);

#endif
