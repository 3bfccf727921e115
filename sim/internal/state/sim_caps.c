/* sim_caps.c: the files of the kernel driver for the instances of a GPU.
 *
 * On hardware, the kernel driver creates an access file in procfs for each
 * instance, and removes the file with the instance. nvidia-modprobe, which NVML
 * runs, makes the device node, which stays until the driver is unloaded. There is
 * no kernel driver here, so the program that changes the instances writes both:
 * gpu-sim in the folder of the node, and the library where it sees this folder
 * mounted. "gpu-sim kernel" follows changes, and writes only access files. */
#include "simstate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sim_open.h"

#define MAX_GI_NUMBER 15 /* the highest with a minor */
#define MAX_CI_NUMBER 8
#define EVERYONE_READS 0444

int sim_show_at(struct sim *sim, const char *proc, const char *dev)
{
	free(sim->proc);
	free(sim->dev);
	sim->proc = strdup(proc);
	sim->dev = strdup(dev);
	return sim->proc != NULL && sim->dev != NULL ? 0 : -1;
}

/* caps_major returns the major of the capability nodes, or 0 if it is unknown. */
static unsigned int caps_major(const struct sim *sim)
{
	char path[PATH_MAX], line[128], name[64];
	unsigned int major, found = 0;

	snprintf(path, sizeof(path), "%s/devices", sim->proc);
	FILE *devices = fopen(path, "re");
	if (devices == NULL)
		return 0;
	while (fgets(line, sizeof(line), devices) != NULL) {
		if (sscanf(line, "%u %63s", &major, name) == 2 && strcmp(name, "nvidia-caps") == 0)
			found = major;
	}
	fclose(devices);
	return found;
}

static int make_node(const struct sim *sim, unsigned int major, uint32_t minor)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/nvidia-caps/nvidia-cap%u", sim->dev, minor);
	if (mknod(path, S_IFCHR | EVERYONE_READS, makedev(major, minor)) != 0)
		return errno == EEXIST ? 0 : -1;
	return chmod(path, EVERYONE_READS); /* regardless of the umask */
}

/* make_access makes the folder of an instance with its access file. */
static int make_access(const char *dir, uint32_t minor)
{
	char path[PATH_MAX + 8], text[128];

	if (mkdir(dir, 0755) != 0 && errno != EEXIST)
		return -1;
	snprintf(path, sizeof(path), "%s/access", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, EVERYONE_READS);
	if (fd < 0)
		return errno == EEXIST ? 0 : -1;
	int n = snprintf(text, sizeof(text), "DeviceFileMinor: %u\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor,
			 EVERYONE_READS);
	int result = write(fd, text, n) == n && fchmod(fd, EVERYONE_READS) == 0 && chmod(dir, 0755) == 0 ? 0 : -1;
	close(fd);
	return result;
}

static int remove_access(const char *dir)
{
	char path[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/access", dir);
	if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
		return -1;
	return rmdir(dir) == 0 || errno == ENOENT ? 0 : -1;
}

/* show_ci creates or removes the access file of one compute instance. */
static int show_ci(const char *dir, bool there, uint32_t minor)
{
	return there ? make_access(dir, minor) : remove_access(dir);
}

/* show_gi creates or removes the access files of one GPU instance and its compute
 * instances. The file of the GPU instance is created first and removed last. */
static int show_gi(const char *dir, const struct sim_mig *mig, uint32_t gpu, uint32_t gi)
{
	char path[PATH_MAX + 8];
	struct stat st;
	int result = 0;
	bool there = sim_gi_by_id(mig, gi) != NULL;

	if (!there && stat(dir, &st) != 0)
		return 0;
	if (there)
		result = make_access(dir, sim_gi_minor(gpu, gi));
	for (uint32_t ci = 0; ci < MAX_CI_NUMBER; ci++) {
		snprintf(path, sizeof(path), "%s/ci%u", dir, ci);
		result |= show_ci(path, sim_ci_by_id(mig, gi, ci) != NULL, sim_ci_minor(gpu, gi, ci));
	}
	if (!there)
		result |= remove_access(dir);
	return result;
}

static int show_nodes(const struct sim *sim, const struct sim_mig *mig, uint32_t gpu)
{
	unsigned int major = caps_major(sim);
	int result = 0;

	if (major == 0)
		return mig->gis == 0 ? 0 : -1;
	for (uint32_t i = 0; i < mig->gis; i++)
		result |= make_node(sim, major, sim_gi_minor(gpu, mig->gi[i].id));
	for (uint32_t i = 0; i < mig->cis; i++)
		result |= make_node(sim, major, sim_ci_minor(gpu, mig->ci[i].gi, mig->ci[i].id));
	return result;
}

/* shown_in finds the folder with the access files of a GPU. It returns false
 * without a driver or MIG, or if this process does not see the folder. */
static bool shown_in(const struct sim *sim, uint32_t slot, char *base, size_t size)
{
	struct stat st;

	if (sim->proc == NULL || sim->dev == NULL)
		return false;
	snprintf(base, size, "%s/driver/nvidia/capabilities/gpu%u/mig", sim->proc, slot);
	return stat(base, &st) == 0;
}

bool sim_shows(const struct sim *sim, uint32_t slot)
{
	char base[PATH_MAX];

	return shown_in(sim, slot, base, sizeof(base));
}

int sim_show(struct sim *sim, uint32_t slot)
{
	char base[PATH_MAX - 32], dir[PATH_MAX];
	struct sim_mig mig;

	if (!shown_in(sim, slot, base, sizeof(base)))
		return 0;
	sim_read_mig(sim, slot, &mig);
	int result = sim->dev[0] != '\0' ? show_nodes(sim, &mig, slot) : 0;
	for (uint32_t gi = 0; gi < MAX_GI_NUMBER; gi++) {
		snprintf(dir, sizeof(dir), "%s/gi%u", base, gi);
		result |= show_gi(dir, &mig, slot, gi);
	}
	return result;
}
