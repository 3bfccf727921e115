/* place.c: finds the state file and the device nodes. */
#define _GNU_SOURCE
#include "place.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The state lies where a real driver keeps its firmware, since that reaches
 * containers by the same CDI specs. */
#define STATE_PATTERN "/lib/firmware/nvidia/*/gsp_sim.bin"

/* setting returns a variable of the environment, NULL if it is empty too. */
static const char *setting(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

/* up cuts the last component off a path and returns it, NULL at the root. */
static char *up(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL)
		return NULL;
	*slash = '\0';
	return slash + 1;
}

/* prefix cuts path, that of a library, to the root of the driver it belongs
 * to: what stands before [/usr]/lib[64][/<triplet>]. */
static int prefix(char *path)
{
	char *name;

	while ((name = up(path)) != NULL) {
		if (strcmp(name, "lib") != 0 && strcmp(name, "lib64") != 0)
			continue;
		char *usr = strrchr(path, '/');
		if (usr != NULL && strcmp(usr, "/usr") == 0)
			*usr = '\0';
		return 0;
	}
	return -1;
}

/* root_of writes the root of the driver that the library with the address self
 * belongs to, without a slash at its end: "" on the node itself. */
static int root_of(const void *self, char root[PATH_MAX])
{
	Dl_info info;

	return dladdr(self, &info) != 0 && realpath(info.dli_fname, root) != NULL ? prefix(root) : -1;
}

/* place_state writes the path of the state file: what GPU_SIM_STATE says, or
 * else the one that belongs to the library with the address self. */
int place_state(const void *self, char *path, size_t size)
{
	const char *named = setting("GPU_SIM_STATE");
	char root[PATH_MAX], pattern[PATH_MAX + sizeof(STATE_PATTERN)];
	glob_t found;

	if (named != NULL)
		return snprintf(path, size, "%s", named) < (int)size ? 0 : -1;
	if (root_of(self, root) != 0)
		return -1;
	snprintf(pattern, sizeof(pattern), "%s" STATE_PATTERN, root);
	if (glob(pattern, 0, NULL, &found) != 0)
		return -1;
	int n = snprintf(path, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
	globfree(&found);
	return n < (int)size ? 0 : -1;
}

/* place_shown writes the root below which the kernel's files are seen: that of
 * the driver, where the node's own root is mounted, or else that of the
 * process. GPU_SIM_ROOT names another one in tests. */
int place_shown(const void *self, char *root, size_t size)
{
	const char *named = setting("GPU_SIM_ROOT");
	char driver[PATH_MAX], proc[PATH_MAX + 32];

	if (named != NULL)
		return snprintf(root, size, "%s", named) < (int)size ? 0 : -1;
	if (setting("GPU_SIM_STATE") != NULL || root_of(self, driver) != 0)
		return -1; /* a test, which shows nothing */
	snprintf(proc, sizeof(proc), "%s/proc/driver/nvidia", driver);
	return snprintf(root, size, "%s", access(proc, F_OK) == 0 ? driver : "") < (int)size ? 0 : -1;
}

/* place_open tries to open a device node as NVIDIA's libraries do: for
 * writing, then for reading. A node that no driver serves answers ENXIO to
 * those who may open it, and EPERM to those whom the device cgroup keeps out:
 * then, fd is -1. */
enum access place_open(const char *node, int *fd)
{
	const char *dev = setting("GPU_SIM_DEV");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dev != NULL ? dev : "/dev", node);
	*fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS))
		*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd >= 0)
		return ACCESS_ALLOWED;
	switch (errno) {
	case ENXIO:
		return ACCESS_ALLOWED;
	case ENOENT:
	case ENOTDIR:
		return ACCESS_ABSENT;
	case EACCES:
		return ACCESS_DENIED;
	case EPERM:
		return ACCESS_BLOCKED;
	default:
		return ACCESS_BROKEN;
	}
}

enum access place_access(const char *node)
{
	int fd;
	enum access access = place_open(node, &fd);

	if (fd >= 0)
		close(fd);
	return access;
}

enum access place_access_gpu(unsigned int minor)
{
	char node[32];

	snprintf(node, sizeof(node), "nvidia%u", minor);
	return place_access(node);
}
