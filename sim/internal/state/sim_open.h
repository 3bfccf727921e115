/* sim_open.h: an open state file, for the files of the core. */
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
	/* Folders for the files of the kernel, see sim_show_at; NULL: none. */
	char *proc, *dev;
};

/* sim_copy.c */
int sim_open_copy(const char *path);

#endif
