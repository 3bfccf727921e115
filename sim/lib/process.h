/* process.h: the memory of processes on a GPU. */
#ifndef PROCESS_H
#define PROCESS_H

#include "mig.h"

/* processes_memory adds up the memory of the processes in a scope. */
uint64_t processes_memory(struct sim_scope scope);

#endif
