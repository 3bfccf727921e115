/* sim_mark.h: marks that a process uses a GPU or an instance. */
#ifndef SIM_MARK_H
#define SIM_MARK_H

#include "simstate.h"

/* sim_mark marks the GPU or instance of an entry as used by this process, until
 * sim_unmark or the end of the process. */
bool sim_mark(struct sim *sim, const struct sim_proc *proc);
void sim_unmark(struct sim *sim, const struct sim_proc *proc);
/* sim_marked reports whether another process has a mark within a scope. */
bool sim_marked(struct sim *sim, struct sim_scope scope);

#endif
