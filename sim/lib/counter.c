/* counter.c: power, energy, PCIe traffic, and the reasons that limit the clocks.
 * Kind: simulated. */
#include "counter.h"

#include <time.h>

nvmlReturn_t counter_read(nvmlDevice_t device, struct sim_telemetry *t)
{
	struct mig_view view;
	nvmlReturn_t r = mig_view_gpu(device, &view);

	if (r != NVML_SUCCESS)
		return r;
	sim_read_telemetry(session_sim(), device->slot, t);
	return t->gpu.generation == device->generation ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

unsigned long long counter_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
	ENTER_COUNTERS(nvmlDeviceGetTotalEnergyConsumption, device, t);
	REQUIRE(energy != NULL);
	*energy = t.counters.energy / 1000000; /* from nJ to mJ */
	return NVML_SUCCESS;
}

/* GA100 has compute capability 8.0. */
static bool averages(const struct sim_gpu *gpu)
{
	return gpu->architecture >= NVML_DEVICE_ARCH_AMPERE && !(gpu->cc_major == 8 && gpu->cc_minor == 0);
}

/* nvml.h: "On Ampere (except GA100) or newer GPUs, the API returns power
 * averaged over 1 sec interval", on others "instantaneous power". */
EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
	ENTER_COUNTERS(nvmlDeviceGetPowerUsage, device, t);
	REQUIRE(power != NULL);
	*power = averages(&t.gpu) ? sim_average_power(&t) : t.gpu.power;
	return NVML_SUCCESS;
}

/* usage returns the power in the scope of a field: 0 is the GPU, 1 the module with
 * an NVIDIA CPU, and 2 the base of the GPU (nvml.h). Boards without such a CPU
 * have no module, and the base has only limits. */
static nvmlReturn_t usage(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	REQUIRE(value->scopeId <= 2);
	if (value->scopeId != 0 || (id == NVML_FI_DEV_POWER_AVERAGE && !averages(&t->gpu)))
		return NVML_ERROR_NOT_SUPPORTED;
	return field_uint(value, id == NVML_FI_DEV_POWER_AVERAGE ? sim_average_power(t) : t->gpu.power);
}

static nvmlReturn_t limit(nvmlFieldValue_t *value, unsigned int milliwatts)
{
	REQUIRE(value->scopeId <= 2);
	return value->scopeId == 0 && milliwatts != 0 ? field_uint(value, milliwatts) : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t field_power(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	switch (id) {
	case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
	case NVML_FI_DEV_ENERGY:
		return field_ull(value, t->counters.energy / 1000000);
	case NVML_FI_DEV_POWER_AVERAGE:
	case NVML_FI_DEV_POWER_INSTANT:
		return usage(t, id, value);
	case NVML_FI_DEV_POWER_MIN_LIMIT:
		return limit(value, t->gpu.power_min);
	case NVML_FI_DEV_POWER_MAX_LIMIT:
	case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
		return limit(value, t->gpu.power_max);
	case NVML_FI_DEV_POWER_CURRENT_LIMIT:
	case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
		return limit(value, t->gpu.power_limit);
	default:
		return NVML_ERROR_NOT_SUPPORTED;
	}
}

EXPORT nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *value)
{
	ENTER_COUNTERS(nvmlDeviceGetPcieReplayCounter, device, t);
	REQUIRE(value != NULL);
	*value = (unsigned int)t.counters.pcie_replays;
	return NVML_SUCCESS;
}

/* nvml.h: "querying a byte counter over a 20ms interval", in KB/s. */
EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
	const struct timespec interval = {.tv_nsec = 20000000};
	struct sim_telemetry later;

	ENTER_COUNTERS(nvmlDeviceGetPcieThroughput, device, t);
	REQUIRE(counter < NVML_PCIE_UTIL_COUNT && value != NULL);
	nanosleep(&interval, NULL);
	nvmlReturn_t r = counter_read(device, &later);
	if (r != NVML_SUCCESS)
		return r;
	uint64_t us = later.counters.since - t.counters.since;
	uint64_t bytes = later.counters.pcie[counter].bytes - t.counters.pcie[counter].bytes;
	*value = us == 0 || later.counters.pcie[counter].bytes < t.counters.pcie[counter].bytes
			 ? 0
			 : (unsigned int)(bytes * 1000000 / us / 1000);
	return NVML_SUCCESS;
}

/* reasons returns nvmlClocksEventReasons. nvml.h: a slowdown of the hardware
 * "is an indicator of" its temperature and its power brake. */
static unsigned long long reasons(const struct sim_telemetry *t)
{
	const unsigned long long hot = nvmlClocksThrottleReasonHwThermalSlowdown, brake = nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
	unsigned long long mask = (t->gpu.limits & 0xff) << 1;
	bool busy = t->gpu.active[SIM_ACTIVE_GPU] != 0;

	for (uint32_t i = 0; i < t->mig.gis; i++)
		busy = busy || t->mig.gi[i].active[SIM_ACTIVE_GPU] != 0;
	if (mask & (hot | brake))
		mask |= nvmlClocksThrottleReasonHwSlowdown;
	return busy ? mask : mask | nvmlClocksEventReasonGpuIdle;
}

#define REASONS(name, value)                                                   \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned long long *out) \
	{                                                                      \
		ENTER_COUNTERS(name, device, t);                               \
		REQUIRE(out != NULL);                                          \
		*out = value;                                                  \
		return NVML_SUCCESS;                                           \
	}

REASONS(nvmlDeviceGetCurrentClocksEventReasons, reasons(&t))
REASONS(nvmlDeviceGetCurrentClocksThrottleReasons, reasons(&t))

/* Kind: static. */
REASONS(nvmlDeviceGetSupportedClocksEventReasons, nvmlClocksEventReasonAll)
REASONS(nvmlDeviceGetSupportedClocksThrottleReasons, nvmlClocksEventReasonAll)

/* limit_of returns the limit that a policy stands for. The mapping is documented
 * at nvmlDeviceGetViolationStatus in nvml.h. */
static int limit_of(nvmlPerfPolicyType_t policy)
{
	switch (policy) {
	case NVML_PERF_POLICY_POWER:
		return SIM_LIMIT_POWER_CAP;
	case NVML_PERF_POLICY_THERMAL:
		return SIM_LIMIT_SW_THERMAL;
	case NVML_PERF_POLICY_SYNC_BOOST:
		return SIM_LIMIT_SYNC_BOOST;
	case NVML_PERF_POLICY_BOARD_LIMIT:
		return SIM_LIMIT_BOARD;
	case NVML_PERF_POLICY_LOW_UTILIZATION:
		return SIM_LIMIT_LOW_UTILIZATION;
	case NVML_PERF_POLICY_RELIABILITY:
		return SIM_LIMIT_RELIABILITY;
	case NVML_PERF_POLICY_TOTAL_APP_CLOCKS:
		return SIM_LIMITED_BY_ANY;
	case NVML_PERF_POLICY_TOTAL_BASE_CLOCKS:
		return SIM_LIMITED_BELOW_BASE;
	default:
		return -1;
	}
}

EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy,
						 nvmlViolationTime_t *time)
{
	ENTER_COUNTERS(nvmlDeviceGetViolationStatus, device, t);
	REQUIRE(limit_of(policy) >= 0 && time != NULL);
	time->referenceTime = counter_now_us();
	time->violationTime = counter_limited(&t, limit_of(policy));
	return NVML_SUCCESS;
}

nvmlReturn_t field_limited(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value)
{
	switch (id) {
	case NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN:
		return field_ull(value, counter_limited(t, SIM_LIMIT_SW_THERMAL));
	case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN:
		return field_ull(value, counter_limited(t, SIM_LIMIT_HW_THERMAL));
	case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN:
		return field_ull(value, counter_limited(t, SIM_LIMIT_POWER_BRAKE));
	case NVML_FI_DEV_PERF_POLICY_TOTAL_APP_CLOCKS:
		return field_ull(value, counter_limited(t, SIM_LIMITED_BY_ANY));
	case NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS:
		return field_ull(value, counter_limited(t, SIM_LIMITED_BELOW_BASE));
	default: /* the fields of the first six policies are consecutive */
		if (id < NVML_FI_DEV_PERF_POLICY_POWER || id > NVML_FI_DEV_PERF_POLICY_RELIABILITY)
			return NVML_ERROR_NOT_SUPPORTED;
		return field_ull(value, counter_limited(t, limit_of((nvmlPerfPolicyType_t)(id - NVML_FI_DEV_PERF_POLICY_POWER))));
	}
}
