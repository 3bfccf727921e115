/* sim_mig_change.h: the common part of changes of a GPU's Multi-Instance state. */
#ifndef SIM_MIG_CHANGE_H
#define SIM_MIG_CHANGE_H

#include "simstate.h"

/* A change that has begun and holds sim_lock. */
struct sim_change {
	struct sim *sim;
	struct sim_ref ref;
	struct sim_gpu gpu;
	struct sim_mig mig; /* to be changed */
	const struct sim_board *board;
};

/* sim_change_begin takes the lock. It releases the lock if it does not return
 * SUCCESS. */
enum sim_status sim_change_begin(struct sim *sim, struct sim_ref ref, struct sim_change *change);
/* sim_change_end stores change->mig if status is SUCCESS, releases the lock and
 * returns status. */
enum sim_status sim_change_end(struct sim_change *change, enum sim_status status);
/* sim_post_mig_change needs sim_lock. */
void sim_post_mig_change(struct sim *sim, struct sim_ref ref);
void sim_clear_instances(struct sim_mig *mig);

#endif
