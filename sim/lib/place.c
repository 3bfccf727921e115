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

/* The state is in the firmware folder of the driver, because the CDI specs of a
 * real driver mount this folder into containers. */
#define STATE_PATTERN "/lib/firmware/nvidia/*/gsp_sim.bin"

/* setting returns an environment variable, or NULL if it is not set or empty. */
static const char *setting(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

/* up removes the last component of a path and returns it. At the root, it returns
 * NULL. */
static char *up(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL)
		return NULL;
	*slash = '\0';
	return slash + 1;
}

/* prefix shortens the path of a library to the root of its driver, which is the
 * part before [/usr]/lib[64][/<triplet>]. */
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

/* root_of writes the driver root of the library that contains the address self.
 * The root has no slash at its end, so it is "" on the node itself. */
static int root_of(const void *self, char root[PATH_MAX])
{
	Dl_info info;

	return dladdr(self, &info) != 0 && realpath(info.dli_fname, root) != NULL ? prefix(root) : -1;
}

/* place_state writes the path of the state file: the value of GPU_SIM_STATE, or
 * else the file in the driver root of the library that contains the address self. */
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

/* place_shown writes the root folder of the kernel's files. If the driver root
 * contains them, because it is a mount of the node's root, it is the driver root.
 * Else it is the root of the process. In tests, GPU_SIM_ROOT names another root. */
int place_shown(const void *self, char *root, size_t size)
{
	const char *named = setting("GPU_SIM_ROOT");
	char driver[PATH_MAX], proc[PATH_MAX + 32];

	if (named != NULL)
		return snprintf(root, size, "%s", named) < (int)size ? 0 : -1;
	if (setting("GPU_SIM_STATE") != NULL || root_of(self, driver) != 0)
		return -1; /* a test that needs no files of the kernel */
	snprintf(proc, sizeof(proc), "%s/proc/driver/nvidia", driver);
	return snprintf(root, size, "%s", access(proc, F_OK) == 0 ? driver : "") < (int)size ? 0 : -1;
}

/* place_open tries to open a device node as NVIDIA's libraries do: for writing,
 * then for reading. If no driver serves the node, *fd is -1 and the error shows
 * the right: ENXIO if the process may open the node, and EPERM if the device
 * cgroup denies it. */
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
