/* sim_access.c: consistent reads and writes of a shared state. */
#include "simstate.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "sim_open.h"

/* Attempts after which a reader takes the lock, in case the writer was killed. */
#define SPINS 1000

_Static_assert(sizeof(struct sim_gpu) % 8 == 0, "sim_gpu is copied in words");
_Static_assert(sizeof(struct sim_driver) % 8 == 0, "sim_driver is copied in words");
_Static_assert(sizeof(struct sim_mig) % 8 == 0, "sim_mig is copied in words");
_Static_assert(sizeof(struct sim_counters) % 8 == 0, "sim_counters is copied in words");
_Static_assert(sizeof(struct sim_procs) % 8 == 0, "sim_procs is copied in words");

static void take(struct sim *sim, int how)
{
	pthread_mutex_lock(&sim->mutex);
	while (flock(sim->fd, how) != 0 && errno == EINTR)
		;
}

void sim_unlock(struct sim *sim)
{
	flock(sim->fd, LOCK_UN);
	pthread_mutex_unlock(&sim->mutex);
}

/* sim_lock makes the caller the only writer. An odd sequence means that a writer
 * was killed during a change. Each value that it wrote is valid by itself, so
 * sim_lock keeps the values and makes the sequence even. */
void sim_lock(struct sim *sim)
{
	take(sim, LOCK_EX);
	uint64_t seq = __atomic_load_n(&sim->state->seq, __ATOMIC_RELAXED);
	if (sim->writable && seq % 2 != 0)
		__atomic_store_n(&sim->state->seq, seq + 1, __ATOMIC_RELEASE);
}

static void load_words(void *to, const void *from, size_t size)
{
	for (size_t i = 0; i < size / 8; i++)
		((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED);
}

static void store_words(void *to, const void *from, size_t size)
{
	for (size_t i = 0; i < size / 8; i++)
		__atomic_store_n((uint64_t *)to + i, ((const uint64_t *)from)[i], __ATOMIC_RELAXED);
}

/* part is a part of the state and its copy. */
struct part {
	void *to;
	const void *from;
	size_t size;
};

static void load(const struct part *part, int n)
{
	for (int i = 0; i < n; i++)
		load_words(part[i].to, part[i].from, part[i].size);
}

/* try_read copies parts, and reports whether they are consistent because no
 * writer changed the state meanwhile. */
static bool try_read(const struct sim_state *state, const struct part *part, int n)
{
	uint64_t before = __atomic_load_n(&state->seq, __ATOMIC_ACQUIRE);

	if (before % 2 != 0)
		return false;
	load(part, n);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&state->seq, __ATOMIC_RELAXED) == before;
}

static void read_parts(struct sim *sim, const struct part *part, int n)
{
	for (int i = 0; i < SPINS; i++) {
		if (try_read(sim->state, part, n))
			return;
		sched_yield();
	}
	/* The writer is busy or was killed. Under the lock, no writer is active. */
	take(sim, LOCK_SH);
	load(part, n);
	sim_unlock(sim);
}

static void write_parts(struct sim *sim, const struct part *part, int n)
{
	uint64_t *seq = &sim->state->seq;

	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (int i = 0; i < n; i++)
		store_words(part[i].to, part[i].from, part[i].size);
	__atomic_store_n(seq, *seq + 1, __ATOMIC_RELEASE);
}

static void read_consistent(struct sim *sim, void *to, const void *from, size_t size)
{
	read_parts(sim, &(struct part){to, from, size}, 1);
}

static void write_consistent(struct sim *sim, void *to, const void *from, size_t size)
{
	write_parts(sim, &(struct part){to, from, size}, 1);
}

void sim_read_gpu(struct sim *sim, uint32_t slot, struct sim_gpu *out)
{
	read_consistent(sim, out, &sim->state->gpu[slot], sizeof(*out));
}

void sim_read_driver(struct sim *sim, struct sim_driver *out)
{
	read_consistent(sim, out, &sim->state->driver, sizeof(*out));
}

void sim_read_mig(struct sim *sim, uint32_t slot, struct sim_mig *out)
{
	read_consistent(sim, out, &sim->state->mig[slot], sizeof(*out));
}

void sim_read_procs(struct sim *sim, struct sim_procs *out)
{
	read_consistent(sim, out, &sim->state->procs, sizeof(*out));
}

void sim_read_telemetry(struct sim *sim, uint32_t slot, struct sim_telemetry *out)
{
	const struct sim_state *state = sim->state;
	const struct part parts[] = {
		{&out->gpu, &state->gpu[slot], sizeof(out->gpu)},
		{&out->mig, &state->mig[slot], sizeof(out->mig)},
		{&out->counters, &state->counters[slot], sizeof(out->counters)},
	};

	read_parts(sim, parts, sizeof(parts) / sizeof(parts[0]));
	sim_count(out, sim_now_us());
}

/* sim_write_telemetry needs sim_lock. */
void sim_write_telemetry(struct sim *sim, uint32_t slot, const struct sim_telemetry *t)
{
	struct sim_state *state = sim->state;
	const struct part parts[] = {
		{&state->gpu[slot], &t->gpu, sizeof(t->gpu)},
		{&state->mig[slot], &t->mig, sizeof(t->mig)},
		{&state->counters[slot], &t->counters, sizeof(t->counters)},
	};

	write_parts(sim, parts, sizeof(parts) / sizeof(parts[0]));
}

/* sim_write_gpu needs sim_lock. */
void sim_write_gpu(struct sim *sim, uint32_t slot, const struct sim_gpu *gpu)
{
	struct sim_telemetry t;

	sim_read_telemetry(sim, slot, &t);
	bool other = t.gpu.generation != gpu->generation;
	t.gpu = *gpu;
	if (other)
		sim_recount(&t, SIM_RECOUNT_ALL);
	sim_write_telemetry(sim, slot, &t);
}

/* sim_write_mig needs sim_lock. */
void sim_write_mig(struct sim *sim, uint32_t slot, const struct sim_mig *mig)
{
	struct sim_telemetry t;

	sim_read_telemetry(sim, slot, &t);
	t.mig = *mig;
	sim_write_telemetry(sim, slot, &t);
}

/* sim_write_procs needs sim_lock. */
void sim_write_procs(struct sim *sim, const struct sim_procs *procs)
{
	write_consistent(sim, &sim->state->procs, procs, sizeof(*procs));
}

/* sim_write_driver needs sim_lock. */
void sim_write_driver(struct sim *sim, const struct sim_driver *driver)
{
	write_consistent(sim, &sim->state->driver, driver, sizeof(*driver));
}

static int by_pci_place(const void *a, const void *b)
{
	const struct sim_gpu *x = a, *y = b;

	if (x->domain != y->domain)
		return x->domain < y->domain ? -1 : 1;
	if (x->bus != y->bus)
		return x->bus < y->bus ? -1 : 1;
	return (x->device > y->device) - (x->device < y->device);
}

/* sim_enumerate returns the plugged GPUs in the order of NVML's indices, which is
 * the order of their places on the PCI bus. It reads all GPUs at one moment. */
uint32_t sim_enumerate(struct sim *sim, struct sim_gpu out[SIM_MAX_GPUS])
{
	uint32_t n = 0;

	read_consistent(sim, out, sim->state->gpu, sizeof(sim->state->gpu));
	for (uint32_t i = 0; i < SIM_MAX_GPUS; i++) {
		if (out[i].generation != 0) {
			if (n != i)
				out[n] = out[i];
			n++;
		}
	}
	qsort(out, n, sizeof(out[0]), by_pci_place);
	return n;
}

/* sim_count_call counts one call. It returns the return code that is forced for
 * this call or for its symbol, or 0. */
uint32_t sim_count_call(struct sim *sim, uint32_t symbol)
{
	if (!sim->writable)
		return sim_forced(sim, symbol);
	__atomic_fetch_add(&sim->state->call[symbol].count, 1, __ATOMIC_RELAXED);
	uint32_t fault = sim_take_fault(sim, symbol);
	return fault != 0 ? fault : sim_forced(sim, symbol);
}

uint64_t sim_calls(struct sim *sim, uint32_t symbol)
{
	return __atomic_load_n(&sim->state->call[symbol].count, __ATOMIC_RELAXED);
}

void sim_reset_calls(struct sim *sim, uint32_t symbol)
{
	__atomic_store_n(&sim->state->call[symbol].count, 0, __ATOMIC_RELAXED);
}

void sim_force(struct sim *sim, uint32_t symbol, uint32_t answer)
{
	__atomic_store_n(&sim->state->call[symbol].forced, answer, __ATOMIC_RELAXED);
}

uint32_t sim_forced(struct sim *sim, uint32_t symbol)
{
	return __atomic_load_n(&sim->state->call[symbol].forced, __ATOMIC_RELAXED);
}

bool sim_loaded(struct sim *sim)
{
	return __atomic_load_n(&sim->state->driver.loaded, __ATOMIC_ACQUIRE) != 0;
}

void sim_set_latency(struct sim *sim, uint64_t ns)
{
	__atomic_store_n(&sim->state->latency_ns, ns, __ATOMIC_RELAXED);
}

uint64_t sim_latency(struct sim *sim)
{
	return __atomic_load_n(&sim->state->latency_ns, __ATOMIC_RELAXED);
}
