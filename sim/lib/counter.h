/* counter.h: the counters of a GPU at the moment of a call. */
#ifndef COUNTER_H
#define COUNTER_H

#include "mig.h"

/* counter_read returns the activity and the counters of a GPU. It rejects handles
 * of MIG devices. */
nvmlReturn_t counter_read(nvmlDevice_t device, struct sim_telemetry *telemetry);

/* counter_now_us returns the current time in the unit of NVML's time stamps. */
unsigned long long counter_now_us(void);

/* Parts of nvmlDeviceGetFieldValues. Each returns NOT_SUPPORTED for a field that
 * it does not implement. */
nvmlReturn_t field_ecc(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value);
nvmlReturn_t field_link(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value);
nvmlReturn_t field_power(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value);
nvmlReturn_t field_limited(const struct sim_telemetry *t, unsigned int id, nvmlFieldValue_t *value);

/* Each function sets the value of a field to a value of one type. */
nvmlReturn_t field_uint(nvmlFieldValue_t *value, unsigned int v);
nvmlReturn_t field_ull(nvmlFieldValue_t *value, unsigned long long v);
nvmlReturn_t field_int(nvmlFieldValue_t *value, int v);

/* counter_limited returns how long a policy has limited the clocks, in ns. */
static inline unsigned long long counter_limited(const struct sim_telemetry *t, int limit)
{
	return t->counters.limited[limit] * 1000;
}

#define ENTER_COUNTERS(name, device, t)                                        \
	struct sim_telemetry t;                                                \
	ENTER(name);                                                           \
	do {                                                                   \
		nvmlReturn_t counted = counter_read((device), &t);             \
		if (counted != NVML_SUCCESS)                                   \
			return counted;                                        \
	} while (0)

#endif
