/*
 * sim_telemetry.h: the activity and the counters of a GPU.
 *
 * Nothing runs between two calls. struct sim_gpu has the rates of counters, and
 * struct sim_counters has their totals up to the time counters.since. A reader
 * adds the rate multiplied by the time since then. A writer first updates the
 * totals to the current time, and then changes a rate. A counter therefore
 * increases with time, and all processes of the node read the same value.
 */
#ifndef SIM_TELEMETRY_H
#define SIM_TELEMETRY_H

/* Activity of a GPU or a GPU instance, in percent of the value in the comment. */
enum sim_activity {
	SIM_ACTIVE_GPU,    /* of the time: any work */
	SIM_ACTIVE_MEMORY, /* of the time: memory was read or written */
	SIM_ACTIVE_ENCODER,
	SIM_ACTIVE_DECODER,
	SIM_ACTIVE_JPEG,
	SIM_ACTIVE_OFA,
	SIM_ACTIVE_SM,        /* of the SMs */
	SIM_ACTIVE_OCCUPANCY, /* of the warps that could be active */
	SIM_ACTIVE_INTEGER,   /* from here on: of the time of the SMs */
	SIM_ACTIVE_TENSOR,
	SIM_ACTIVE_DFMA,
	SIM_ACTIVE_HMMA,
	SIM_ACTIVE_DMMA,
	SIM_ACTIVE_IMMA,
	SIM_ACTIVE_FP64,
	SIM_ACTIVE_FP32,
	SIM_ACTIVE_FP16,
	SIM_ACTIVE_DRAM, /* of the bandwidth of the memory */
	SIM_ACTIVITIES
};
#define SIM_ACTIVITY_BYTES 24 /* SIM_ACTIVITIES, in whole words */

/* Traffic of a GPU. The NVLinks that are up share the NVLink traffic evenly. */
enum sim_flow_kind {
	SIM_PCIE_TX,
	SIM_PCIE_RX,
	SIM_NVLINK_TX,
	SIM_NVLINK_RX,
	SIM_FLOWS
};

/* Reasons that limit the clocks. The first eight are nvmlClocksEventReason… from
 * 0x2 on, in the order of nvml.h. */
enum sim_limit {
	SIM_LIMIT_SETTING,
	SIM_LIMIT_POWER_CAP,
	SIM_LIMIT_HW_SLOWDOWN,
	SIM_LIMIT_SYNC_BOOST,
	SIM_LIMIT_SW_THERMAL,
	SIM_LIMIT_HW_THERMAL,
	SIM_LIMIT_POWER_BRAKE,
	SIM_LIMIT_DISPLAY,
	SIM_LIMIT_BOARD, /* from here on: NVML reports no reason, only the time */
	SIM_LIMIT_LOW_UTILIZATION,
	SIM_LIMIT_RELIABILITY,
	SIM_LIMITS,
	/* Time during which any policy, or a slowdown of the hardware, was active. */
	SIM_LIMITED_BY_ANY = SIM_LIMITS,
	SIM_LIMITED_BELOW_BASE,
	SIM_LIMITED
};

#define SIM_NO_TEMPERATURE 0xffffffffu

/* Bytes so far, and millionths of the next one. */
struct sim_flow {
	uint64_t bytes, millionths;
};

/* Percent times microseconds so far. */
struct sim_work {
	uint64_t active[SIM_ACTIVITIES];
};

struct sim_gi_work {
	uint64_t generation; /* of the GPU instance */
	struct sim_work work;
};

enum sim_ecc_counter { SIM_ECC_VOLATILE, SIM_ECC_AGGREGATE, SIM_ECC_COUNTERS };
enum sim_ecc_memory { SIM_ECC_DRAM, SIM_ECC_SRAM, SIM_ECC_MEMORIES };
enum sim_ecc_error { SIM_ECC_CORRECTED, SIM_ECC_UNCORRECTED, SIM_ECC_ERRORS };
#define SIM_LINK_ERRORS 5 /* NVML_NVLINK_ERROR_COUNT */

struct sim_counters {
	uint64_t since; /* time of the totals, by sim_now_us() */
	/* Since the driver was loaded: */
	uint64_t energy; /* nJ */
	uint64_t limited[SIM_LIMITED]; /* us */
	/* Since the GPU was reset: */
	struct sim_flow pcie[2];                 /* sent, received */
	struct sim_flow link[SIM_MAX_LINKS][2]; /* sent, received */
	struct sim_work work;                    /* of the whole GPU */
	struct sim_gi_work gi[SIM_MAX_GIS];      /* in the order of sim_mig.gi */
	uint64_t link_error[SIM_MAX_LINKS][SIM_LINK_ERRORS]; /* by nvmlNvLinkErrorCounter_t */
	uint64_t pcie_replays;
	/* Volatile counters count since the driver was loaded or the GPU was reset,
	 * aggregate counters since the GPU was plugged. */
	uint64_t ecc[SIM_ECC_COUNTERS][SIM_ECC_MEMORIES][SIM_ECC_ERRORS];
	/* The power last changed at power_at. Its average was then power_before, in mW. */
	uint64_t power_at, power_before;
};

/* Events that reset counters. */
enum sim_recount {
	SIM_RECOUNT_ALL,    /* another GPU */
	SIM_RECOUNT_DRIVER, /* the driver was loaded */
	SIM_RECOUNT_RESET,  /* the GPU was reset */
};

/* Parts of a GPU whose utilization by a process is sampled. */
enum sim_use { SIM_USE_SM, SIM_USE_MEMORY, SIM_USE_ENCODER, SIM_USE_DECODER, SIM_USE_JPEG, SIM_USE_OFA, SIM_USES };

struct sim;
struct sim_telemetry;

/* sim_counters.c */
uint64_t sim_now_us(void);
void sim_count(struct sim_telemetry *telemetry, uint64_t now_us);
void sim_recount(struct sim_telemetry *telemetry, enum sim_recount what);
void sim_set_power(struct sim_telemetry *telemetry, uint32_t milliwatts);
uint32_t sim_average_power(const struct sim_telemetry *telemetry);

/* sim_access.c: sim_read_telemetry updates the totals to the current time. */
void sim_read_telemetry(struct sim *sim, uint32_t slot, struct sim_telemetry *out);
void sim_write_telemetry(struct sim *sim, uint32_t slot, const struct sim_telemetry *telemetry);

#endif
