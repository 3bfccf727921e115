/*
 * sim_mig.h: Multi-Instance GPU, processes on GPUs, resets.
 *
 * What only reads takes a copy of struct sim_mig, which sim_read_mig makes
 * without a lock: look everything up in one copy, and it fits together. What
 * changes something takes sim_lock itself, so call it without holding that.
 * Instances are named by their generation, which is never used twice: who kept
 * the one of an instance that was destroyed and made again gets NOT_FOUND.
 */
#ifndef SIM_MIG_H
#define SIM_MIG_H

#include "simstate.h"

/* Answers. Each has the value of the nvmlReturn_t of its name. */
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

/* A kind of GPU instance, a row of sim_models.c. */
struct sim_gi_profile {
	uint32_t profile; /* NVML_GPU_INSTANCE_PROFILE_… */
	uint32_t id;      /* what creates it: nvmlGpuInstanceProfileInfo_t.id */
	const char *name; /* as nvidia-smi: "1g.5gb+me" */
	uint32_t slices;  /* compute slices */
	uint32_t size;    /* memory slices */
	uint32_t starts;  /* bit n: may start at memory slice n */
	uint32_t max;     /* instances of this kind on an empty GPU */
	uint32_t memory_mib, sms;
	uint32_t copy, decoder, encoder, jpeg, ofa; /* engines */
	uint32_t media; /* takes what only one instance of the GPU may have: "+me" */
	bool verified;  /* compared with hardware */
	const char *source;
};

/* A kind of compute instance within a kind of GPU instance. All its engines
 * are those of the GPU instance, shared. */
struct sim_ci_profile {
	uint32_t profile; /* NVML_COMPUTE_INSTANCE_PROFILE_… */
	uint32_t id;      /* nvmlComputeInstanceProfileInfo_t.id */
	uint32_t slices;
	uint32_t starts; /* bit n: may start at compute slice n */
	uint32_t max;
	uint32_t sms;
	char name[32]; /* "1c.3g.20gb"; "3g.20gb" where it is the whole */
	bool verified;
	const char *source;
};

/* What a product can be divided into. */
struct sim_board {
	uint32_t compute_slices, memory_slices;
	uint32_t slice_sms; /* SMs of one compute slice */
	/* A change of the mode waits for a reset of the GPU, and a reboot keeps
	 * the mode (Ampere). Else it works at once and a reboot ends it. */
	bool mode_needs_reset;
	/* Which of the free places the driver takes: the lowest (published output
	 * of an A30), or the highest (examples of the MIG user guide on A100:
	 * 1g at 6, 2g at 4, 4g at 0; for the others taken over). */
	bool from_below;
	bool verified;
	const char *source;
	struct sim_gi_profile profile[SIM_GI_PROFILES]; /* no name: end of the list */
};

/* A GPU as a caller knows it: another one may have come into its slot. */
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

/* sim_mig_tables.c: what boards can do. NULL or false: there is no such thing. */
const struct sim_board *sim_board(const char *model);
const struct sim_gi_profile *sim_gi_profile(const struct sim_board *board, uint32_t profile);
const struct sim_gi_profile *sim_gi_profile_by_id(const struct sim_board *board, uint32_t id);
bool sim_ci_profile(const struct sim_board *board, const struct sim_gi_profile *gi, uint32_t profile,
		    struct sim_ci_profile *out);
bool sim_ci_profile_by_id(const struct sim_board *board, const struct sim_gi_profile *gi, uint32_t id,
			  struct sim_ci_profile *out);
/* The highest number of MIG devices that a board can have at once. */
uint32_t sim_max_mig_devices(const struct sim_board *board);

/* sim_mig_find.c: look-ups in a copy. NULL: there is none. */
const struct sim_gi *sim_gi_by_id(const struct sim_mig *mig, uint32_t id);
const struct sim_gi *sim_gi_by_generation(const struct sim_mig *mig, uint64_t generation);
const struct sim_ci *sim_ci_by_id(const struct sim_mig *mig, uint32_t gi, uint32_t id);
const struct sim_ci *sim_ci_by_generation(const struct sim_mig *mig, uint64_t generation);
const struct sim_ci *sim_ci_by_uuid(const struct sim_mig *mig, const char *uuid);
const struct sim_ci *sim_ci_at(const struct sim_mig *mig, uint32_t index);
/* How many more instances of a profile fit, all at once. */
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
 * sim_show_at says where the node's /proc and /dev can be written: call it
 * once after sim_open, and all changes below keep the files there up to date.
 * A library of the root R takes R/proc and R/dev: on the node itself R is
 * empty, and in a container that has the node's root mounted it is that mount.
 * sim_show does it for one GPU; 0: all is in line, or there is nothing to
 * write to. It needs sim_lock. */
int sim_show_at(struct sim *sim, const char *proc, const char *dev);
int sim_show(struct sim *sim, uint32_t slot);
/* sim_shows tells whether sim_show has a place for one GPU. */
bool sim_shows(const struct sim *sim, uint32_t slot);

/* sim_mig.c: changes. Each posts nvmlEventMigConfigChange where it changed
 * something. Any of them answers GPU_IS_LOST for a GPU that is lost or gone,
 * NO_PERMISSION where the state may only be read. */

/* sim_set_mig_mode: NOT_SUPPORTED without MIG. On SUCCESS *activation is
 * SUCCESS: the mode is in force, and if it is off all instances are gone;
 * RESET_REQUIRED: it is pending until the GPU is reset; IN_USE: processes use
 * the GPU, so it is pending, or where no reset is needed nothing changed. */
enum sim_status sim_set_mig_mode(struct sim *sim, struct sim_ref gpu, bool on, enum sim_status *activation);
/* NOT_SUPPORTED: the mode is off. INVALID_ARGUMENT: no such profile, or no
 * placement of it. INSUFFICIENT_RESOURCES: taken, or nothing left. */
enum sim_status sim_create_gi(struct sim *sim, struct sim_ref gpu, const struct sim_gi_request *want,
			      struct sim_gi *out);
enum sim_status sim_create_ci(struct sim *sim, struct sim_ref gpu, const struct sim_ci_request *want,
			      struct sim_ci *out);
/* NOT_FOUND: it is gone already. IN_USE: it has compute instances, or
 * processes use it. */
enum sim_status sim_destroy_gi(struct sim *sim, struct sim_ref gpu, uint64_t generation);
enum sim_status sim_destroy_ci(struct sim *sim, struct sim_ref gpu, uint64_t generation);

/* sim_reset.c: a reset has a begin, from which the GPU is lost, and an end.
 * IN_USE: processes use it. The mode that was pending is in force afterwards,
 * and no instance is left; what the GPU asked for is done. */
enum sim_status sim_begin_reset(struct sim *sim, struct sim_ref gpu);
enum sim_status sim_end_reset(struct sim *sim, struct sim_ref gpu);

/* What a restart leaves of the Multi-Instance state: no instances, ever. */
enum sim_restart {
	SIM_RESTART_GPU,    /* of one GPU: a pending mode comes into force */
	SIM_RESTART_DRIVER, /* the mode stays where it is the GPU's, else it is off */
	SIM_RESTART_NODE,   /* both */
};
/* sim_restart_mig does it for one GPU. It needs sim_lock. */
void sim_restart_mig(struct sim *sim, uint32_t slot, enum sim_restart what);

/* sim_restart_counters starts counters of one GPU anew. It needs sim_lock. */
void sim_restart_counters(struct sim *sim, uint32_t slot, enum sim_recount what);

/* sim_clear_ecc sets the volatile or the aggregate counters to 0. */
enum sim_status sim_clear_ecc(struct sim *sim, struct sim_ref gpu, uint32_t counter);

/* sim_proc.c: processes on GPUs. */

/* sim_self makes the entry of the calling process on the whole of a GPU,
 * sim_proc_of that of another one; false: no process of this number runs. */
void sim_self(struct sim_ref gpu, struct sim_proc *out);
bool sim_proc_of(struct sim_ref gpu, uint32_t pid, struct sim_proc *out);
/* sim_put_proc enters a process, or changes its memory. Entries are distinguished
 * by pid, namespace, GPU and instance. NOT_FOUND: no such instance.
 * INSUFFICIENT_RESOURCES: the table is full. A process that may only read the
 * state enters itself too: it is in no list, and what it uses is in use. */
enum sim_status sim_put_proc(struct sim *sim, const struct sim_proc *proc);
/* sim_use_proc changes what an entry uses from now on; sim_put_proc keeps that. */
enum sim_status sim_use_proc(struct sim *sim, const struct sim_proc *proc, const uint32_t use[SIM_USES]);
/* sim_drop_proc removes what sim_put_proc entered. */
enum sim_status sim_drop_proc(struct sim *sim, const struct sim_proc *proc);
/* sim_procs_on copies the living processes on a GPU: of a GPU instance, or of
 * one compute instance of it, or with SIM_NO_INSTANCE of all. It returns how
 * many there are, of which at most max are copied. */
struct sim_scope {
	struct sim_ref gpu;
	uint32_t gi, ci;
};
uint32_t sim_procs_on(struct sim *sim, struct sim_scope scope, struct sim_proc *out, uint32_t max);
/* sim_in_use reports whether any process works there, also those in no list. */
bool sim_in_use(struct sim *sim, struct sim_scope scope);

#endif
