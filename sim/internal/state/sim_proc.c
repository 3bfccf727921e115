/* sim_proc.c: processes on GPUs. */
#include "simstate.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim_mark.h"
#include "sim_open.h"

static uint64_t own_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* start_time returns the start time of a process, or 0 if it does not run. The
 * time is field 22 of /proc/<pid>/stat. Field 2, in parentheses, can contain any
 * characters. */
static uint64_t start_time(uint32_t pid)
{
	char path[32], text[1024];
	unsigned long long started = 0;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	const char *rest = strrchr(text, ')');
	if (rest == NULL ||
	    sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &started) != 1)
		return 0;
	return started;
}

/* ended reports whether the process of an entry has ended. A process of another
 * PID namespace cannot be looked up. It runs as long as its mark exists. */
static bool ended(struct sim *sim, const struct sim_proc *proc, uint64_t ns)
{
	struct sim_scope scope = {{proc->slot, proc->generation}, proc->gi, proc->ci};

	if (proc->started == 0)
		return false;
	if (proc->ns == ns)
		return start_time(proc->pid) != proc->started;
	return proc->marked && !sim_marked(sim, scope);
}

bool sim_proc_of(struct sim_ref gpu, uint32_t pid, struct sim_proc *out)
{
	*out = (struct sim_proc){
		.pid = pid,
		.slot = gpu.slot,
		.generation = gpu.generation,
		.gi = SIM_NO_INSTANCE,
		.ci = SIM_NO_INSTANCE,
		.ns = own_namespace(),
		.started = start_time(pid),
	};
	return out->started != 0;
}

void sim_self(struct sim_ref gpu, struct sim_proc *out)
{
	sim_proc_of(gpu, (uint32_t)getpid(), out);
}

static bool same(const struct sim_proc *a, const struct sim_proc *b)
{
	return a->pid == b->pid && a->ns == b->ns && a->slot == b->slot && a->generation == b->generation &&
	       a->gi == b->gi && a->ci == b->ci;
}

/* present reports whether the GPU and the instance of an entry exist. */
static enum sim_status present(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_gpu gpu;
	struct sim_mig mig;

	if (proc->slot >= SIM_MAX_GPUS || proc->pid == 0)
		return SIM_INVALID_ARGUMENT;
	sim_read_gpu(sim, proc->slot, &gpu);
	if (gpu.generation != proc->generation || gpu.lost != SIM_PRESENT)
		return SIM_GPU_IS_LOST;
	if (proc->gi == SIM_NO_INSTANCE)
		return SIM_SUCCESS;
	sim_read_mig(sim, proc->slot, &mig);
	return sim_ci_by_id(&mig, proc->gi, proc->ci) != NULL ? SIM_SUCCESS : SIM_NOT_FOUND;
}

/* left reports whether the GPU of an entry was unplugged. */
static bool left(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_gpu gpu;

	sim_read_gpu(sim, proc->slot, &gpu);
	return gpu.generation != proc->generation;
}

/* entry_for returns the entry of a process. If it has none, entry_for returns a
 * free entry, or else an entry whose process or GPU is gone, or else NULL. */
static struct sim_proc *entry_for(struct sim *sim, struct sim_procs *procs, const struct sim_proc *proc)
{
	struct sim_proc *room = NULL;
	uint64_t ns = own_namespace();

	for (int i = 0; i < SIM_MAX_PROCS; i++) {
		struct sim_proc *p = &procs->proc[i];
		if (p->pid != 0 && same(p, proc))
			return p;
		if (room == NULL && p->pid == 0)
			room = p;
	}
	for (int i = 0; room == NULL && i < SIM_MAX_PROCS; i++) {
		if (ended(sim, &procs->proc[i], ns) || left(sim, &procs->proc[i]))
			room = &procs->proc[i];
	}
	return room;
}

/* own reports whether an entry belongs to the calling process. */
static bool own(const struct sim_proc *proc)
{
	return proc->started != 0 && proc->pid == (uint32_t)getpid() && proc->ns == own_namespace();
}

/* enter adds a process to the table. */
static enum sim_status enter(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_procs procs;

	sim_read_procs(sim, &procs);
	struct sim_proc *entry = entry_for(sim, &procs, proc);
	if (entry == NULL)
		return SIM_INSUFFICIENT_RESOURCES;
	struct sim_proc was = *entry;
	*entry = *proc;
	if (was.pid != 0 && same(&was, proc)) {
		memcpy(entry->use, was.use, sizeof(entry->use));
		entry->used_at = was.used_at;
	}
	sim_write_procs(sim, &procs);
	return SIM_SUCCESS;
}

/* The mark is set before the instance is checked. A process that destroys the
 * instance at the same time therefore sees the mark, or this check fails. */
enum sim_status sim_put_proc(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_proc entry = *proc;
	bool writable = sim_writable(sim);

	if (proc->slot >= SIM_MAX_GPUS)
		return SIM_INVALID_ARGUMENT;
	entry.marked = own(proc) && (proc->mps || sim_mark(sim, proc));
	if (!writable && !entry.marked)
		return SIM_NO_PERMISSION;
	if (writable)
		sim_lock(sim);
	enum sim_status status = present(sim, proc);
	if (status == SIM_SUCCESS && writable)
		status = enter(sim, &entry);
	if (writable)
		sim_unlock(sim);
	/* If the table is full, the process still uses the GPU. */
	if (status != SIM_SUCCESS && status != SIM_INSUFFICIENT_RESOURCES && entry.marked)
		sim_unmark(sim, proc);
	return status;
}

enum sim_status sim_use_proc(struct sim *sim, const struct sim_proc *proc, const uint32_t use[SIM_USES])
{
	struct sim_procs procs;
	struct timespec now;
	enum sim_status status = SIM_NOT_FOUND;

	if (!sim_writable(sim))
		return SIM_NO_PERMISSION;
	clock_gettime(CLOCK_REALTIME, &now);
	sim_lock(sim);
	sim_read_procs(sim, &procs);
	for (int i = 0; i < SIM_MAX_PROCS; i++) {
		struct sim_proc *p = &procs.proc[i];
		if (p->pid == 0 || !same(p, proc))
			continue;
		memcpy(p->use, use, sizeof(p->use));
		p->used_at = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
		status = SIM_SUCCESS;
	}
	if (status == SIM_SUCCESS)
		sim_write_procs(sim, &procs);
	sim_unlock(sim);
	return status;
}

enum sim_status sim_drop_proc(struct sim *sim, const struct sim_proc *proc)
{
	struct sim_procs procs;
	enum sim_status status = SIM_NOT_FOUND;

	if (own(proc))
		sim_unmark(sim, proc);
	if (!sim_writable(sim))
		return own(proc) ? SIM_SUCCESS : SIM_NO_PERMISSION;
	sim_lock(sim);
	sim_read_procs(sim, &procs);
	for (int i = 0; i < SIM_MAX_PROCS; i++) {
		if (procs.proc[i].pid != 0 && same(&procs.proc[i], proc)) {
			procs.proc[i] = (struct sim_proc){0};
			status = SIM_SUCCESS;
		}
	}
	if (status == SIM_SUCCESS)
		sim_write_procs(sim, &procs);
	sim_unlock(sim);
	return status;
}

static bool within(const struct sim_proc *proc, const struct sim_scope *scope)
{
	return proc->slot == scope->gpu.slot && proc->generation == scope->gpu.generation &&
	       (scope->gi == SIM_NO_INSTANCE || proc->gi == scope->gi) &&
	       (scope->ci == SIM_NO_INSTANCE || proc->ci == scope->ci);
}

/* idle reports whether no entry is for a slot. It reads single words instead of
 * a consistent copy, because programs query the memory of GPUs often, and most
 * GPUs have no process. */
static bool idle(const struct sim *sim, uint32_t slot)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++) {
		const struct sim_proc *p = &sim->state->procs.proc[i];
		if (__atomic_load_n(&p->pid, __ATOMIC_RELAXED) != 0 && __atomic_load_n(&p->slot, __ATOMIC_RELAXED) == slot)
			return false;
	}
	return true;
}

uint32_t sim_procs_on(struct sim *sim, struct sim_scope scope, struct sim_proc *out, uint32_t max)
{
	struct sim_procs procs;
	uint32_t n = 0;

	if (idle(sim, scope.gpu.slot))
		return 0;
	uint64_t ns = own_namespace();
	sim_read_procs(sim, &procs);
	for (int i = 0; i < SIM_MAX_PROCS; i++) {
		const struct sim_proc *p = &procs.proc[i];
		if (p->pid == 0 || !within(p, &scope) || ended(sim, p, ns))
			continue;
		if (n < max)
			out[n] = *p;
		n++;
	}
	return n;
}

bool sim_in_use(struct sim *sim, struct sim_scope scope)
{
	return sim_marked(sim, scope) || sim_procs_on(sim, scope, NULL, 0) > 0;
}
