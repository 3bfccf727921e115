/* capability.h: the rights of a process on the instances of a GPU. */
#ifndef CAPABILITY_H
#define CAPABILITY_H

#include "simstate.h"

bool capability_administrator(void);
bool capability_config(void);
bool capability_monitor(void);
bool capability_instance(uint32_t gpu_minor, const struct sim_ci *ci);

#endif
