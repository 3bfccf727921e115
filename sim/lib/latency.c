/* latency.c: the time that a call takes. */
#include "latency.h"

#include <time.h>

#include "simstate.h"

/* How much longer than requested a sleep may take. Shorter waits are busy loops. */
#define SLEEP_SLACK_NS 100000

/* latency_pass returns when ns nanoseconds have passed since it was called. */
void latency_pass(uint64_t ns)
{
	int64_t end = sim_now_ns() + (int64_t)ns;

	if (ns > SLEEP_SLACK_NS) {
		uint64_t sleep = ns - SLEEP_SLACK_NS;
		struct timespec t = {(time_t)(sleep / 1000000000), (long)(sleep % 1000000000)};
		nanosleep(&t, NULL);
	}
	while (sim_now_ns() < end)
		;
}
