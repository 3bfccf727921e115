/* sim_mark.c: marks that a process uses a GPU or an instance.
 *
 * A mark is a lock on a byte behind the end of the state file. A process that
 * can only read the file, as in a container, can set it. Processes in all PID
 * namespaces see it, but not which process has set it. The kernel removes it
 * when the process ends for any reason. */
#define _GNU_SOURCE
#include "sim_mark.h"

#include <fcntl.h>
#include <string.h>

#include "sim_open.h"

#define FIRST_MARK (1 << 30)
#define MARKS_PER_GPU 256
#define FIRST_INSTANCE 16 /* the first mark is for the whole GPU */
#define MARKS_PER_GI 8

static struct flock range(struct sim_scope scope, short type)
{
	struct flock lock = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = FIRST_MARK + (off_t)scope.gpu.slot * MARKS_PER_GPU,
		.l_len = MARKS_PER_GPU,
	};

	if (scope.gi != SIM_NO_INSTANCE) {
		lock.l_start += FIRST_INSTANCE + (off_t)scope.gi * MARKS_PER_GI;
		lock.l_len = MARKS_PER_GI;
	}
	if (scope.ci != SIM_NO_INSTANCE) {
		lock.l_start += scope.ci;
		lock.l_len = 1;
	}
	return lock;
}

/* one returns the lock on the byte of an entry. */
static struct flock one(const struct sim_proc *proc, short type)
{
	struct sim_scope scope = {{proc->slot, proc->generation}, proc->gi, proc->ci};
	struct flock lock = range(scope, type);

	lock.l_len = 1;
	return lock;
}

bool sim_mark(struct sim *sim, const struct sim_proc *proc)
{
	struct flock lock = one(proc, F_RDLCK);

	return fcntl(sim->fd, F_OFD_SETLK, &lock) == 0;
}

void sim_unmark(struct sim *sim, const struct sim_proc *proc)
{
	struct flock lock = one(proc, F_UNLCK);

	fcntl(sim->fd, F_OFD_SETLK, &lock);
}

bool sim_marked(struct sim *sim, struct sim_scope scope)
{
	struct flock lock = range(scope, F_WRLCK);

	return fcntl(sim->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
