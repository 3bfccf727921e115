/* A thread that waits for the events of one event set. See waiter.go. */
#pragma once

/* event is nvmlEventData_t of nvml.h. */
struct event {
	void *device;
	unsigned long long type;
	unsigned long long data;
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

struct waiter;

/* waiter_start starts a thread with the name nvml-events. It returns NULL if that fails, or
 * if the library has no nvmlEventSetWait_v2. The thread adds 1 to the eventfd done when it
 * begins, and after each wait. */
struct waiter *waiter_start(void *set, int done);

/* waiter_thread is the ID of the thread, for signals. */
int waiter_thread(const struct waiter *w);

/* waiter_ask lets the thread wait once. */
void waiter_ask(struct waiter *w, unsigned int limit_ms);

/* waiter_answer returns what the last wait returned. */
int waiter_answer(const struct waiter *w, struct event *event);

/* waiter_stop ends the thread, which must not be in a wait, and frees w. */
void waiter_stop(struct waiter *w);
