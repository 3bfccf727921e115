/* sim_ring.c: events, from one process to all waiting processes. */
#include "simstate.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim_open.h"

#define NS_PER_S 1000000000

int64_t sim_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* sim_posted returns the number of the latest event: the place from which a
 * new listener starts. */
uint64_t sim_posted(struct sim *sim)
{
	return __atomic_load_n(&sim->state->ring.posted, __ATOMIC_ACQUIRE);
}

/* sim_post appends an event and wakes all listeners. It needs sim_lock. It clears
 * the number of the ring entry while it writes the entry, so that a slow listener
 * notices that a later event overwrites the entry. */
void sim_post(struct sim *sim, const struct sim_event *event)
{
	struct sim_ring *ring = &sim->state->ring;
	uint64_t number = ring->posted + 1;
	struct sim_event *entry = &ring->event[number % SIM_RING];

	__atomic_store_n(&entry->number, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 1; i < sizeof(*entry) / 8; i++)
		__atomic_store_n((uint64_t *)entry + i, ((const uint64_t *)event)[i], __ATOMIC_RELAXED);
	__atomic_store_n(&entry->number, number, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->posted, number, __ATOMIC_RELEASE);
	__atomic_store_n(&ring->wake, (uint32_t)number, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &ring->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* sim_next_event returns the event after *seen, and moves *seen to it. It skips
 * events that were overwritten in the ring. It returns false if there is no such
 * event yet. */
bool sim_next_event(struct sim *sim, uint64_t *seen, struct sim_event *out)
{
	struct sim_ring *ring = &sim->state->ring;

	for (;;) {
		uint64_t posted = sim_posted(sim);
		if (*seen >= posted)
			return false;
		if (posted - *seen > SIM_RING)
			*seen = posted - SIM_RING;
		const struct sim_event *entry = &ring->event[(*seen + 1) % SIM_RING];
		out->number = __atomic_load_n(&entry->number, __ATOMIC_ACQUIRE);
		for (size_t i = 1; i < sizeof(*entry) / 8; i++)
			((uint64_t *)out)[i] = __atomic_load_n((const uint64_t *)entry + i, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		bool whole = out->number == *seen + 1 &&
			     __atomic_load_n(&entry->number, __ATOMIC_RELAXED) == out->number;
		++*seen;
		if (whole)
			return true;
	}
}

/* sim_wait_event sleeps until an event after the event with number seen exists.
 * It returns false at the deadline on CLOCK_MONOTONIC (-1: no deadline), and if a
 * signal interrupts it, as nvml.h describes for nvmlEventSetWait. */
bool sim_wait_event(struct sim *sim, uint64_t seen, int64_t deadline_ns)
{
	struct sim_ring *ring = &sim->state->ring;

	for (;;) {
		uint32_t wake = __atomic_load_n(&ring->wake, __ATOMIC_SEQ_CST);
		if (sim_posted(sim) > seen)
			return true;
		struct timespec left, *timeout = NULL;
		if (deadline_ns >= 0) {
			int64_t ns = deadline_ns - sim_now_ns();
			if (ns <= 0)
				return false;
			left = (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
			timeout = &left;
		}
		if (syscall(SYS_futex, &ring->wake, FUTEX_WAIT, wake, timeout, NULL, 0) != 0 && errno == EINTR)
			return false;
	}
}

/* sim_follow records that the files of the kernel show the changes of all events
 * up to number. */
void sim_follow(struct sim *sim, uint64_t number)
{
	__atomic_store_n(&sim->state->ring.followed, number + 1, __ATOMIC_RELEASE);
}

/* sim_wait_followed waits until "gpu-sim kernel", if it runs, has followed an
 * event. It stops waiting if the kernel was killed, because such a kernel follows
 * no events. */
void sim_wait_followed(struct sim *sim, uint64_t number)
{
	const struct timespec pause = {.tv_nsec = NS_PER_S / 10000};
	int64_t end = sim_now_ns() + NS_PER_S;

	for (;;) {
		uint64_t followed = __atomic_load_n(&sim->state->ring.followed, __ATOMIC_ACQUIRE);
		if (followed == 0 || followed > number || sim_now_ns() >= end)
			return;
		nanosleep(&pause, NULL);
	}
}
