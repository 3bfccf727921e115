#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "waiter.h"

/* What NVML and the signal handler of Go need of a stack. */
enum { STACK = 256 << 10 };

struct waiter {
	int (*wait)(void *set, struct event *event, unsigned int timeout_ms);
	void *set;
	int done;
	int thread;
	pthread_t joined;
	/* asked counts the waits that are asked for. What follows belongs to the thread from
	 * then until it has added to done. */
	sem_t asked;
	bool stop;
	unsigned int limit_ms;
	int answer;
	struct event event;
};

static void *run(void *arg)
{
	struct waiter *w = arg;

	pthread_setname_np(pthread_self(), "nvml-events");
	w->thread = (int)syscall(SYS_gettid);
	for (;;) {
		eventfd_write(w->done, 1);
		while (sem_wait(&w->asked) != 0) {
		}
		if (w->stop)
			return NULL;
		w->answer = w->wait(w->set, &w->event, w->limit_ms);
	}
}

/* begin starts the thread. It leaves signals to the threads of Go, but for those of a
 * crash, and SIGURG, which interrupts a wait and which Go ignores on other threads. */
static int begin(struct waiter *w)
{
	static const int taken[] = {SIGURG, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
	pthread_attr_t attr;
	sigset_t mask, before;

	sigfillset(&mask);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigdelset(&mask, taken[i]);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_sigmask(SIG_SETMASK, &mask, &before);
	int failed = pthread_create(&w->joined, &attr, run, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return failed;
}

struct waiter *waiter_start(void *set, int done)
{
	struct waiter *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	*(void **)&w->wait = dlsym(RTLD_DEFAULT, "nvmlEventSetWait_v2");
	w->set = set;
	w->done = done;
	sem_init(&w->asked, 0, 0);
	if (w->wait == NULL || begin(w) != 0) {
		sem_destroy(&w->asked);
		free(w);
		return NULL;
	}
	return w;
}

int waiter_thread(const struct waiter *w)
{
	return w->thread;
}

void waiter_ask(struct waiter *w, unsigned int limit_ms)
{
	w->limit_ms = limit_ms;
	sem_post(&w->asked);
}

int waiter_answer(const struct waiter *w, struct event *event)
{
	*event = w->event;
	return w->answer;
}

void waiter_stop(struct waiter *w)
{
	w->stop = true;
	sem_post(&w->asked);
	pthread_join(w->joined, NULL);
	sem_destroy(&w->asked);
	free(w);
}
