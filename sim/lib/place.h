/* place.h: the paths of the simulated node, for both libraries. */
#ifndef PLACE_H
#define PLACE_H

#include <stddef.h>

/* The right of the process to open a device node. */
enum access {
	ACCESS_ALLOWED, /* opened, or no driver serves it (ENXIO) */
	ACCESS_ABSENT,  /* the node does not exist */
	ACCESS_DENIED,  /* denied by the node's owner or mode (EACCES) */
	ACCESS_BLOCKED, /* denied by the device cgroup (EPERM) */
	ACCESS_BROKEN,  /* anything else */
};

enum access place_access(const char *node);
enum access place_open(const char *node, int *fd);
enum access place_access_gpu(unsigned int minor);
int place_state(const void *self, char *path, size_t size);
int place_shown(const void *self, char *root, size_t size);

#endif
