/* sim_copy.c: write access to a state file on a read-only mount.
 *
 * The CDI spec of a driver mounts the firmware, and with it the state, read-only into
 * containers. On hardware, a privileged process changes modes there through device
 * nodes. Here, it opens the state through a writable copy of the mount, which
 * no other process sees. */
#define _GNU_SOURCE
#include "sim_open.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* sim_open_copy returns a file descriptor, or -1 if the process may not mount. */
int sim_open_copy(const char *path)
{
	struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
	int copy = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	char name[32];
	int fd = -1;

	if (copy < 0)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", copy);
	if (syscall(SYS_mount_setattr, copy, "", AT_EMPTY_PATH, &writable, sizeof(writable)) == 0)
		fd = open(name, O_RDWR | O_CLOEXEC);
	close(copy);
	return fd;
}
