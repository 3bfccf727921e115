/* sim_counters.c: the counters of a GPU at one moment. */
#include "simstate.h"

#include <string.h>
#include <time.h>

#define US_PER_S 1000000u

/* NVML averages power over this time. */
#define POWER_WINDOW_US US_PER_S

/* sim_now_us returns the time of the counters, on the same clock in all processes
 * of a node. */
uint64_t sim_now_us(void)
{
	return (uint64_t)sim_now_ns() / 1000;
}

static void flow(struct sim_flow *f, uint64_t bytes_per_s, uint64_t us)
{
	unsigned __int128 sum = (unsigned __int128)bytes_per_s * us + f->millionths;

	f->bytes += (uint64_t)(sum / US_PER_S);
	f->millionths = (uint64_t)(sum % US_PER_S);
}

static void work(struct sim_work *w, const uint8_t *active, uint64_t us)
{
	for (int i = 0; i < SIM_ACTIVITIES; i++)
		w->active[i] += active[i] * us;
}

static void links(struct sim_counters *c, const struct sim_gpu *gpu, uint64_t us)
{
	uint32_t n = gpu->links < SIM_MAX_LINKS ? gpu->links : SIM_MAX_LINKS;
	uint64_t up = 0;

	for (uint32_t i = 0; i < n; i++)
		up += gpu->link[i].up != 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!gpu->link[i].up)
			continue;
		flow(&c->link[i][0], gpu->flow[SIM_NVLINK_TX] / up, us);
		flow(&c->link[i][1], gpu->flow[SIM_NVLINK_RX] / up, us);
	}
}

#define BIT(limit) (1u << (limit))

static void limited(struct sim_counters *c, uint32_t limits, uint64_t us)
{
	const uint32_t hardware = BIT(SIM_LIMIT_HW_SLOWDOWN) | BIT(SIM_LIMIT_HW_THERMAL) | BIT(SIM_LIMIT_POWER_BRAKE);
	const uint32_t policies = hardware | BIT(SIM_LIMIT_POWER_CAP) | BIT(SIM_LIMIT_SYNC_BOOST) |
				  BIT(SIM_LIMIT_SW_THERMAL) | BIT(SIM_LIMIT_BOARD) |
				  BIT(SIM_LIMIT_LOW_UTILIZATION) | BIT(SIM_LIMIT_RELIABILITY);

	for (int i = 0; i < SIM_LIMITS; i++)
		c->limited[i] += limits & BIT(i) ? us : 0;
	c->limited[SIM_LIMITED_BY_ANY] += limits & policies ? us : 0;
	c->limited[SIM_LIMITED_BELOW_BASE] += limits & hardware ? us : 0;
}

/* instances keeps the counters of each GPU instance that still exists. A new
 * instance starts at 0. */
static void instances(struct sim_counters *c, const struct sim_mig *mig)
{
	struct sim_gi_work was[SIM_MAX_GIS];

	memcpy(was, c->gi, sizeof(was));
	memset(c->gi, 0, sizeof(c->gi));
	for (uint32_t i = 0; i < mig->gis && i < SIM_MAX_GIS; i++) {
		c->gi[i].generation = mig->gi[i].generation;
		for (int j = 0; j < SIM_MAX_GIS; j++) {
			if (was[j].generation == mig->gi[i].generation)
				c->gi[i] = was[j];
		}
	}
}

/* sim_count updates the totals from counters.since to now_us, with the rates in t. */
void sim_count(struct sim_telemetry *t, uint64_t now_us)
{
	struct sim_counters *c = &t->counters;
	const struct sim_gpu *gpu = &t->gpu;
	/* The clock restarts with the machine. */
	uint64_t us = now_us > c->since ? now_us - c->since : 0;

	c->since = now_us;
	instances(c, &t->mig);
	if (us == 0 || gpu->generation == 0)
		return;
	c->energy += gpu->power * us; /* mW in us are nJ */
	limited(c, gpu->limits, us);
	flow(&c->pcie[0], gpu->flow[SIM_PCIE_TX], us);
	flow(&c->pcie[1], gpu->flow[SIM_PCIE_RX], us);
	links(c, gpu, us);
	work(&c->work, gpu->active, us);
	for (uint32_t i = 0; i < t->mig.gis && i < SIM_MAX_GIS; i++)
		work(&c->gi[i].work, t->mig.gi[i].active, us);
}

/* sim_recount resets the counters that do not survive the event. */
void sim_recount(struct sim_telemetry *t, enum sim_recount what)
{
	struct sim_counters *c = &t->counters;

	memset(c->ecc[SIM_ECC_VOLATILE], 0, sizeof(c->ecc[SIM_ECC_VOLATILE]));
	if (what != SIM_RECOUNT_RESET) {
		c->energy = 0;
		memset(c->limited, 0, sizeof(c->limited));
	}
	if (what != SIM_RECOUNT_DRIVER) {
		memset(c->pcie, 0, sizeof(c->pcie));
		memset(c->link, 0, sizeof(c->link));
		memset(c->link_error, 0, sizeof(c->link_error));
		memset(&c->work, 0, sizeof(c->work));
		c->pcie_replays = 0;
	}
	if (what == SIM_RECOUNT_ALL) {
		memset(c->ecc, 0, sizeof(c->ecc));
		c->power_at = c->since;
		c->power_before = t->gpu.power;
	}
}

/* sim_average_power returns the average power of the last second before
 * counters.since, in mW. */
uint32_t sim_average_power(const struct sim_telemetry *t)
{
	const struct sim_counters *c = &t->counters;
	uint64_t us = c->since > c->power_at ? c->since - c->power_at : 0;

	if (us >= POWER_WINDOW_US)
		return t->gpu.power;
	return (uint32_t)((t->gpu.power * us + c->power_before * (POWER_WINDOW_US - us)) / POWER_WINDOW_US);
}

/* sim_set_power changes the power at counters.since. */
void sim_set_power(struct sim_telemetry *t, uint32_t milliwatts)
{
	t->counters.power_before = sim_average_power(t);
	t->counters.power_at = t->counters.since;
	t->gpu.power = milliwatts;
}
