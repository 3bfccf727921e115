/*
 * sim_mig.h: Multi-Instance GPU, processes on GPUs, resets.
 *
 * Functions that only read have a copy of struct sim_mig as parameter, which
 * sim_read_mig makes without a lock. The values of one copy are consistent.
 * Functions that change something take sim_lock, so the caller must not hold
 * it. A generation identifies an instance and is never used twice: for the
 * generation of an instance that was destroyed, these functions return
 * NOT_FOUND, even if the instance was created again.
 */
#ifndef SIM_MIG_H
#define SIM_MIG_H

#include "simstate.h"

/* Results. Each has the value of the nvmlReturn_t with the same name. */
enum sim_status {
	SIM_SUCCESS = 0,
	SIM_INVALID_ARGUMENT = 2,
	SIM_NOT_SUPPORTED = 3,
	SIM_NO_PERMISSION = 4, /* the state may only be read */
	SIM_NOT_FOUND = 6,
	SIM_GPU_IS_LOST = 15,
	SIM_RESET_REQUIRED = 16,
	SIM_IN_USE = 19,
	SIM_INSUFFICIENT_RESOURCES = 23,
};

#define SIM_ANYWHERE 0xffffffffu /* as a start: the driver chooses */
#define SIM_MAX_STARTS 8
#define SIM_GI_PROFILES 18 /* NVML_GPU_INSTANCE_PROFILE_COUNT */
#define SIM_CI_PROFILES 9  /* NVML_COMPUTE_INSTANCE_PROFILE_COUNT */

#define SIM_SOURCE 256

/* A kind of GPU instance. */
struct sim_gi_profile {
	uint32_t profile; /* NVML_GPU_INSTANCE_PROFILE_… */
	uint32_t id;      /* ID for creating it: nvmlGpuInstanceProfileInfo_t.id */
	char name[32];    /* as in nvidia-smi: "1g.5gb+me" */
	uint32_t slices;  /* compute slices */
	uint32_t size;    /* memory slices */
	uint32_t starts;  /* bit n: may start at memory slice n */
	uint32_t max;     /* instances of this kind on an empty GPU */
	uint32_t memory_mib, sms;
	uint32_t copy, decoder, encoder, jpeg, ofa; /* engines */
	uint32_t verified; /* 1: its instances were compared with hardware */
	char source[SIM_SOURCE];
};

/* A kind of compute instance within a kind of GPU instance. It shares all
 * engines of the GPU instance. */
struct sim_ci_profile {
	uint32_t profile; /* NVML_COMPUTE_INSTANCE_PROFILE_… */
	uint32_t id;      /* nvmlComputeInstanceProfileInfo_t.id */
	uint32_t slices;
	uint32_t starts; /* bit n: may start at compute slice n */
	uint32_t max;
	uint32_t sms;
	char name[48]; /* "1c.3g.20gb"; "3g.20gb" for the whole GPU instance */
	bool verified;
	const char *source;
};

/* How a product can be divided. */
struct sim_board {
	uint32_t compute_slices, memory_slices;
	uint32_t slice_sms; /* SMs of one compute slice */
	/* 1 (Ampere): a change of the mode waits for a reset of the GPU, and a
	 * reboot keeps the mode. 0: a change is immediate, and a reboot turns
	 * the mode off. */
	uint32_t mode_needs_reset;
	/* The free place that the driver chooses. 1: the lowest (published
	 * output of an A30). 0: the highest (examples of the MIG user guide on
	 * A100: 1g at 6, 2g at 4, 4g at 0; assumed for the other products). */
	uint32_t from_below;
	char source[SIM_SOURCE];
	struct sim_gi_profile profile[SIM_GI_PROFILES]; /* no name: end of the list */
};

/* A GPU that a caller knows. Another GPU may have replaced it in its slot. */
struct sim_ref {
	uint32_t slot;
	uint64_t generation;
};

struct sim_gi_request {
	uint32_t id;    /* of the profile, as sim_gi_profile.id */
	uint32_t start; /* memory slice, or SIM_ANYWHERE */
	uint32_t size;  /* memory slices; not checked with SIM_ANYWHERE */
};

struct sim_ci_request {
	uint64_t gi;    /* generation of the GPU instance */
	uint32_t id;    /* of the profile, as sim_ci_profile.id */
	uint32_t start; /* compute slice, or SIM_ANYWHERE */
	uint32_t size;
};

/* sim_model.c. NULL: the product of the GPU cannot be divided. The board is in the
 * state and never changes. */
const struct sim_board *sim_board(struct sim *sim, const struct sim_gpu *gpu);

/* sim_mig_tables.c: look-ups in the profiles of boards. NULL or false: not found. */
const struct sim_gi_profile *sim_gi_profile(const struct sim_board *board, uint32_t profile);
const struct sim_gi_profile *sim_gi_profile_by_id(const struct sim_board *board, uint32_t id);
bool sim_ci_profile(const struct sim_board *board, const struct sim_gi_profile *gi, uint32_t profile,
		    struct sim_ci_profile *out);
bool sim_ci_profile_by_id(const struct sim_board *board, const struct sim_gi_profile *gi, uint32_t id,
			  struct sim_ci_profile *out);
/* The highest number of MIG devices that a board can have at once. */
uint32_t sim_max_mig_devices(const struct sim_board *board);

/* sim_mig_find.c: look-ups in a copy. NULL: not found. */
const struct sim_gi *sim_gi_by_id(const struct sim_mig *mig, uint32_t id);
const struct sim_gi *sim_gi_by_generation(const struct sim_mig *mig, uint64_t generation);
const struct sim_ci *sim_ci_by_id(const struct sim_mig *mig, uint32_t gi, uint32_t id);
const struct sim_ci *sim_ci_by_generation(const struct sim_mig *mig, uint64_t generation);
const struct sim_ci *sim_ci_by_uuid(const struct sim_mig *mig, const char *uuid);
const struct sim_ci *sim_ci_at(const struct sim_mig *mig, uint32_t index);
/* sim_gi_capacity returns how many more instances of a profile fit together. */
uint32_t sim_gi_capacity(const struct sim_board *board, const struct sim_mig *mig,
			 const struct sim_gi_profile *profile);
uint32_t sim_ci_capacity(const struct sim_mig *mig, const struct sim_gi *gi,
			 const struct sim_ci_profile *profile);
/* Minors of the nodes /dev/nvidia-caps/nvidia-cap<minor>. */
#define SIM_CAP_CONFIG 1
#define SIM_CAP_MONITOR 2
uint32_t sim_gi_minor(uint32_t gpu_minor, uint32_t gi);
uint32_t sim_ci_minor(uint32_t gpu_minor, uint32_t gi, uint32_t ci);

/* sim_caps.c: the capability files and nodes of the instances.
 *
 * sim_show_at sets the paths under which the node's /proc and /dev can be
 * written. After this call, all changes below keep the files there up to date.
 * Call it once after sim_open. A library passes R/proc and R/dev. On the node
 * itself, R is empty. In a container that mounts the node's root, R is this
 * mount. sim_show updates the files of one GPU and needs sim_lock. It returns 0
 * if all files are up to date, or if no path is set. */
int sim_show_at(struct sim *sim, const char *proc, const char *dev);
int sim_show(struct sim *sim, uint32_t slot);
/* sim_shows reports whether sim_show has a folder for the files of a GPU. */
bool sim_shows(const struct sim *sim, uint32_t slot);

/* sim_mig.c: changes. Each function posts nvmlEventMigConfigChange if it has
 * changed something. Each returns GPU_IS_LOST for a GPU that is lost or was
 * unplugged, and NO_PERMISSION if the state is read-only. */

/* sim_set_mig_mode returns NOT_SUPPORTED for a product without MIG. On SUCCESS,
 * *activation is one of:
 *   SUCCESS: the mode is active; if it is off, all instances are destroyed.
 *   RESET_REQUIRED: the mode is pending until the GPU is reset.
 *   IN_USE: processes use the GPU. The mode is pending, or has not changed if
 *   the product needs no reset. */
enum sim_status sim_set_mig_mode(struct sim *sim, struct sim_ref gpu, bool on, enum sim_status *activation);
/* NOT_SUPPORTED: the mode is off. INVALID_ARGUMENT: the profile or its placement
 * does not exist. INSUFFICIENT_RESOURCES: the placement, or all placements are
 * occupied. */
enum sim_status sim_create_gi(struct sim *sim, struct sim_ref gpu, const struct sim_gi_request *want,
			      struct sim_gi *out);
enum sim_status sim_create_ci(struct sim *sim, struct sim_ref gpu, const struct sim_ci_request *want,
			      struct sim_ci *out);
/* NOT_FOUND: the instance was already destroyed. IN_USE: it has compute
 * instances, or processes use it. */
enum sim_status sim_destroy_gi(struct sim *sim, struct sim_ref gpu, uint64_t generation);
enum sim_status sim_destroy_ci(struct sim *sim, struct sim_ref gpu, uint64_t generation);

/* sim_reset.c: the GPU is lost from the begin of a reset to its end. IN_USE:
 * processes use the GPU. After the reset, a pending mode is active, all
 * instances are destroyed, and the recovery action is completed. */
enum sim_status sim_begin_reset(struct sim *sim, struct sim_ref gpu);
enum sim_status sim_end_reset(struct sim *sim, struct sim_ref gpu);

/* Restarts, which differ in the mode afterwards. All destroy the instances. */
enum sim_restart {
	SIM_RESTART_GPU,    /* of one GPU: a pending mode becomes active */
	SIM_RESTART_DRIVER, /* a mode that the GPU keeps (Ampere) stays, else it is off */
	SIM_RESTART_NODE,   /* both */
};
/* sim_restart_mig restarts the MIG state of one GPU. It needs sim_lock. */
void sim_restart_mig(struct sim *sim, uint32_t slot, enum sim_restart what);

/* sim_restart_counters resets counters of one GPU. It needs sim_lock. */
void sim_restart_counters(struct sim *sim, uint32_t slot, enum sim_recount what);

/* sim_clear_ecc sets the volatile or the aggregate counters to 0. */
enum sim_status sim_clear_ecc(struct sim *sim, struct sim_ref gpu, uint32_t counter);

/* sim_proc.c: processes on GPUs. */

/* sim_self makes the entry of the calling process on a whole GPU. sim_proc_of
 * makes the entry of any process, and returns false if no process has this PID. */
void sim_self(struct sim_ref gpu, struct sim_proc *out);
bool sim_proc_of(struct sim_ref gpu, uint32_t pid, struct sim_proc *out);
/* sim_put_proc adds a process to the table, or changes its memory. PID,
 * namespace, GPU and instance identify an entry. NOT_FOUND: no such instance.
 * INSUFFICIENT_RESOURCES: the table is full. A process that can only read the
 * state also calls it for itself: the process is not in the table, but its GPU
 * or instance counts as in use. */
enum sim_status sim_put_proc(struct sim *sim, const struct sim_proc *proc);
/* sim_use_proc changes the utilization of an entry. sim_put_proc does not change
 * it. */
enum sim_status sim_use_proc(struct sim *sim, const struct sim_proc *proc, const uint32_t use[SIM_USES]);
/* sim_drop_proc removes the entry of sim_put_proc. */
enum sim_status sim_drop_proc(struct sim *sim, const struct sim_proc *proc);
/* sim_procs_on copies the living processes in a scope: a GPU instance, one of
 * its compute instances, or, with SIM_NO_INSTANCE, the whole GPU. It copies at
 * most max entries, and returns the number of all processes in the scope. */
struct sim_scope {
	struct sim_ref gpu;
	uint32_t gi, ci;
};
uint32_t sim_procs_on(struct sim *sim, struct sim_scope scope, struct sim_proc *out, uint32_t max);
/* sim_in_use reports whether a process uses the scope, even if the process is not
 * in the table. */
bool sim_in_use(struct sim *sim, struct sim_scope scope);

/* sim_compute.c: compute modes. */

/* sim_set_compute_mode sets the mode of a GPU or, with the generation of a compute
 * instance, of a MIG device. NOT_FOUND: the instance was destroyed. */
enum sim_status sim_set_compute_mode(struct sim *sim, struct sim_ref gpu, uint64_t instance, uint32_t mode);
/* sim_start_proc is sim_put_proc for the calling process, which makes its first context.
 * IN_USE: the compute mode does not admit the process. It admits clients of MPS. */
enum sim_status sim_start_proc(struct sim *sim, const struct sim_proc *proc);

#endif
