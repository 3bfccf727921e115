/*
 * simstate.h: the state of a simulated GPU node.
 *
 * The state is one file. Every process that simulates a part of the node maps
 * this file shared: libnvidia-ml.so.1, libcuda.so.1 and, through cgo, gpu-sim.
 * This header is the only definition of the layout.
 *
 * Rules of access:
 *   - Writers hold sim_lock (flock, which the kernel releases when the process
 *     ends).
 *   - gpu[], mig[], counters[], procs and driver change between two steps of
 *     the sequence lock `seq`. Read them with sim_read_…, and change them with
 *     sim_write_… or the functions of sim_mig.h, never in place.
 *   - models only grows, see sim_model.h.
 *   - ring is written under sim_lock and read with sim_next_event.
 *   - Single words (latency, counters, forced return codes) are plain atomics.
 * A process with read-only access to the file does not change it: its calls are
 * not counted, and it is in no list of processes.
 */
#ifndef SIMSTATE_H
#define SIMSTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAGIC "OUTRIGSM"
/* Raise SIM_VERSION when the meaning of a field changes. sim_header.layout already
 * detects changes of sizes, places and the list of symbols. */
#define SIM_VERSION 4

#define SIM_MAX_GPUS 16
#define SIM_MAX_LINKS 18
#define SIM_RING 256
#define SIM_CLOCKS 4 /* graphics, SM, memory, video: nvmlClockType_t */
#define SIM_TREE 4   /* host bridge, upper switch, lower switch, board */
#define SIM_MAX_GIS 8   /* GPU instances of a GPU; no board has more than 7 */
#define SIM_MAX_CIS 8   /* compute instances of a GPU, each with at least one slice */
#define SIM_MAX_PROCS 256

struct sim; /* an open state file */

#include "sim_fault.h"
#include "sim_telemetry.h"

/* Symbols whose calls are counted and whose return code can be forced. */
enum sim_symbol {
#define SIM_SYMBOL(name) SIM_SYM_##name,
#include "symbols_nvml.h"
#include "symbols_cuda.h"
#undef SIM_SYMBOL
	SIM_SYMBOLS
};

struct sim_header {
	char magic[8];
	uint32_t version;
	uint32_t reserved;
	uint64_t size;   /* of the whole file */
	uint64_t layout; /* sim_layout() of the program that made the file */
};

struct sim_driver {
	char version[80];
	char nvml_version[80];
	uint32_t cuda_version; /* 13000 is CUDA 13.0 */
	uint32_t loaded;
	uint64_t loads; /* how often the driver was loaded */
	uint32_t imex_channels; /* their device nodes: channel0, channel1, … */
	uint32_t pad;
};

/* The far end of one NVLink. */
struct sim_link {
	uint32_t domain, bus, device;
	uint32_t pci_id; /* device << 16 | vendor */
	uint32_t type;   /* nvmlIntNvLinkDeviceType_t */
	uint32_t up;
};

/* The state of a GPU in its NVLink fabric. */
struct sim_fabric {
	uint32_t present; /* 0: the product has no fabric */
	uint32_t state;   /* nvmlGpuFabricState_t */
	uint32_t status;  /* nvmlReturn_t, once the state is "completed" */
	uint32_t clique;
	uint8_t cluster[16]; /* all zero: no other node shares it */
};

/* The behavior of NVML for a lost GPU. */
enum sim_lost {
	SIM_PRESENT = 0,
	/* NVML returns no handle, and every call on an old handle returns
	 * GPU_IS_LOST. nvidia-smi then prints "Unable to determine the device
	 * handle". */
	SIM_LOST = 1,
	/* NVML returns handles, but calls on them return GPU_IS_LOST. */
	SIM_LOST_BEHIND_HANDLE = 2,
};

/* Which processes may use a GPU or a MIG device: values of nvmlComputeMode_t. */
enum sim_compute_mode {
	SIM_COMPUTE_DEFAULT = 0,
	SIM_COMPUTE_PROHIBITED = 2,
	SIM_COMPUTE_EXCLUSIVE_PROCESS = 3,
};

/* A slot of the machine. Its number is the minor of the device node. */
struct sim_gpu {
	uint64_t generation; /* of the GPU in the slot, never used twice; 0: no GPU */
	char model[32];      /* gpu-sim's name of the product: "h100-80" */
	uint32_t model_at;   /* its place in sim_state.models */
	uint32_t compute_mode; /* enum sim_compute_mode */
	char name[96];
	char uuid[48];
	char serial[32];
	char board_part[32];
	char vbios[32];
	uint32_t brand, architecture; /* nvmlBrandType_t, nvmlDeviceArchitecture_t */
	uint32_t cc_major, cc_minor;
	uint32_t minor, board_id;
	uint32_t domain, bus, device; /* place on the PCI bus */
	uint32_t pci_id, subsystem_id; /* device << 16 | vendor */
	int32_t numa_node;
	uint32_t tree[SIM_TREE]; /* IDs of the parents on the PCI tree, from the root */
	uint32_t sms, cores_per_sm;
	uint32_t mig_capable;
	uint32_t lost; /* enum sim_lost */
	uint32_t persistence;
	struct sim_fabric fabric;
	uint64_t memory_total, memory_reserved, memory_used;
	uint32_t temperature;                 /* °C */
	uint32_t memory_temperature;          /* °C; SIM_NO_TEMPERATURE: no sensor */
	uint32_t limit_shutdown, limit_slowdown; /* °C, of the GPU */
	uint32_t limit_gpu, limit_memory;     /* °C, of the GPU and its memory at work */
	uint8_t active[SIM_ACTIVITY_BYTES];   /* by enum sim_activity */
	uint64_t flow[SIM_FLOWS];             /* bytes per second, by enum sim_flow_kind */
	uint32_t limits;                      /* what limits the clocks: bits of enum sim_limit */
	uint32_t ecc, ecc_pending;            /* 1: on */
	uint32_t power, power_limit;          /* mW */
	uint32_t power_min, power_max;        /* mW */
	uint32_t clock[SIM_CLOCKS];           /* MHz */
	uint32_t clock_max[SIM_CLOCKS];       /* MHz */
	uint32_t pcie_gen, pcie_width;
	uint32_t nvlink_version, links;
	struct sim_link link[SIM_MAX_LINKS];
	uint32_t recovery;      /* the action that it asks for: nvmlDeviceGpuRecoveryAction_t */
	uint32_t remap_pending; /* rows wait for a reset to be remapped */
	uint32_t remap_corrected, remap_uncorrected; /* rows remapped so far */
	uint32_t remap_failed;  /* a row could not be remapped */
	uint32_t encoders, decoders, jpegs, ofas; /* engines */
	uint64_t bar1_total, bar1_used;
	char inforom_image[16], inforom_oem[16], inforom_ecc[16];
	uint32_t resets;        /* since it was plugged */
};

/* A GPU instance. Its number follows from its placement, as with the real driver. */
struct sim_gi {
	uint64_t generation; /* of the instance, never used twice */
	uint32_t id;
	uint32_t profile;     /* NVML_GPU_INSTANCE_PROFILE_… */
	uint32_t start, size; /* in memory slices */
	uint8_t active[SIM_ACTIVITY_BYTES]; /* by enum sim_activity */
};

/* A compute instance, which is a MIG device. */
struct sim_ci {
	uint64_t generation;
	uint32_t id; /* within its GPU instance */
	uint32_t gi; /* number of the GPU instance */
	uint32_t profile;     /* NVML_COMPUTE_INSTANCE_PROFILE_… */
	uint32_t start, size; /* in compute slices of the GPU instance */
	uint32_t compute_mode; /* enum sim_compute_mode */
	char uuid[48];
};

/* The Multi-Instance state of a GPU. ci is in the order of NVML's index. */
struct sim_mig {
	uint32_t mode, pending; /* 1: on */
	uint32_t gis, cis;      /* how many there are */
	struct sim_gi gi[SIM_MAX_GIS];
	struct sim_ci ci[SIM_MAX_CIS];
};

/* A GPU and its counters up to the time counters.since. */
struct sim_telemetry {
	struct sim_gpu gpu;
	struct sim_mig mig;
	struct sim_counters counters;
};

/* A process that has a CUDA context on a GPU, or a process that gpu-sim invented. */
struct sim_proc {
	uint32_t pid; /* 0: the entry is free */
	uint32_t slot;
	uint64_t generation; /* of the GPU */
	uint32_t gi, ci;     /* numbers, or SIM_NO_INSTANCE */
	uint64_t memory;     /* in bytes */
	/* Inode of the PID namespace and start time. They show whether the process
	 * has ended. 0: the process is invented, and its entry stays until it is
	 * removed. */
	uint64_t ns, started;
	uint64_t marked; /* it has a mark, which other namespaces see */
	uint64_t mps;    /* it is a client of MPS. The mark is its server's */
	/* Its utilization, in percent, since used_at in us since 1970. */
	uint32_t use[SIM_USES];
	uint64_t used_at;
};

struct sim_procs {
	struct sim_proc proc[SIM_MAX_PROCS];
};

/* Values of sim_event.kind. */
enum sim_event_kind {
	SIM_EVENT_GPU = 1,  /* an NVML event of a GPU: type and data are NVML's */
	SIM_EVENT_LOST,     /* a GPU fell off the bus, or came back */
	/* A GPU was bound to the driver, or unbound from it. data is its place on the
	 * PCI bus, domain << 16 | bus << 8 | device. */
	SIM_EVENT_PLUGGED,
	SIM_EVENT_UNPLUGGED,
	SIM_EVENT_DRIVER, /* the driver was loaded or unloaded */
};

#define SIM_NO_INSTANCE 0xffffffffu

struct sim_event {
	uint64_t number; /* 1 for the first event ever posted */
	uint32_t kind;
	uint32_t slot;
	uint64_t generation;
	uint64_t type;
	uint64_t data;
	uint32_t gpu_instance, compute_instance;
};

struct sim_ring {
	uint64_t posted; /* number of the latest event */
	/* 1 + number of the latest event that "gpu-sim kernel" has followed; 0: it
	 * does not run. */
	uint64_t followed;
	uint32_t wake;   /* futex: the low word of posted */
	uint32_t pad;
	struct sim_event event[SIM_RING];
};

struct sim_call {
	uint64_t count;
	uint32_t forced; /* return code without an effect; 0: none is forced */
	uint32_t pad;
};

#include "sim_model.h"

struct sim_state {
	struct sim_header header;
	char node[64];
	uint64_t seq; /* odd while a writer changes the state */
	uint64_t latency_ns;
	uint64_t generations; /* GPUs made so far */
	struct sim_driver driver;
	struct sim_gpu gpu[SIM_MAX_GPUS];
	uint64_t instances; /* GPU and compute instances made so far */
	struct sim_mig mig[SIM_MAX_GPUS];
	struct sim_counters counters[SIM_MAX_GPUS];
	struct sim_procs procs;
	struct sim_ring ring;
	struct sim_call call[SIM_SYMBOLS];
	struct sim_fault fault;
	struct sim_models models;
};

enum sim_error {
	SIM_OK = 0,
	SIM_ERRNO = 1,   /* the system call failed with errno */
	SIM_CORRUPT = 2, /* not a state file, or truncated */
	SIM_VERSION_MISMATCH = 3,
};

/* sim_core.c */
uint64_t sim_layout(void);
void sim_header_init(struct sim_header *header);
enum sim_error sim_open(const char *path, struct sim **out);
void sim_close(struct sim *sim);
struct sim_state *sim_map(struct sim *sim);
bool sim_same_file(const struct sim *sim, const char *path);
bool sim_writable(const struct sim *sim);
const char *sim_symbol_name(uint32_t symbol);

/* sim_access.c */
void sim_lock(struct sim *sim);
void sim_unlock(struct sim *sim);
void sim_read_gpu(struct sim *sim, uint32_t slot, struct sim_gpu *out);
void sim_read_driver(struct sim *sim, struct sim_driver *out);
void sim_read_mig(struct sim *sim, uint32_t slot, struct sim_mig *out);
void sim_read_procs(struct sim *sim, struct sim_procs *out);
/* sim_write_gpu and sim_write_mig first update the counters to the current time. */
void sim_write_gpu(struct sim *sim, uint32_t slot, const struct sim_gpu *gpu);
void sim_write_mig(struct sim *sim, uint32_t slot, const struct sim_mig *mig);
void sim_write_procs(struct sim *sim, const struct sim_procs *procs);
void sim_write_driver(struct sim *sim, const struct sim_driver *driver);
uint32_t sim_enumerate(struct sim *sim, struct sim_gpu out[SIM_MAX_GPUS]);

/* Counters, forced return codes and latency are single words and need no lock. */
uint32_t sim_count_call(struct sim *sim, uint32_t symbol);
uint64_t sim_calls(struct sim *sim, uint32_t symbol);
void sim_reset_calls(struct sim *sim, uint32_t symbol);
void sim_force(struct sim *sim, uint32_t symbol, uint32_t answer);
uint32_t sim_forced(struct sim *sim, uint32_t symbol);
bool sim_loaded(struct sim *sim);
void sim_set_latency(struct sim *sim, uint64_t ns);
uint64_t sim_latency(struct sim *sim);

/* sim_ring.c */
uint64_t sim_posted(struct sim *sim);
void sim_post(struct sim *sim, const struct sim_event *event);
bool sim_next_event(struct sim *sim, uint64_t *seen, struct sim_event *out);
bool sim_wait_event(struct sim *sim, uint64_t seen, int64_t deadline_ns);
void sim_follow(struct sim *sim, uint64_t number);
void sim_wait_followed(struct sim *sim, uint64_t number);
int64_t sim_now_ns(void);

#endif
