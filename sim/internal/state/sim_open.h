/* sim_open.h: what the files of the core share about an open state file. */
#ifndef SIM_OPEN_H
#define SIM_OPEN_H

#include <pthread.h>
#include <sys/types.h>

#include "simstate.h"

struct sim {
	struct sim_state *state;
	int fd;
	bool writable;
	dev_t device;
	ino_t inode;
	/* flock does not exclude threads that share a file description. */
	pthread_mutex_t mutex;
	/* Where what the kernel shows can be written; NULL: nowhere. */
	char *proc, *dev;
};

#endif
