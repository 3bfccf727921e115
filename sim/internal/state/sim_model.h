/* sim_model.h: the description of a product. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "sim_mig.h"

#define SIM_PLACES SIM_MAX_GPUS
#define SIM_SWITCHES 6
/* The products that were ever in a node. It has at most SIM_MAX_GPUS GPUs at a time. */
#define SIM_MAX_MODELS 16

/* A place in the PCI tree. Two GPUs with the same bridge are below one host
 * bridge. Two GPUs with the same upper, if it is not 0, are below one upper
 * switch. lower works like upper. */
struct sim_place {
	uint32_t domain, bus;
	int32_t numa_node;
	uint32_t bridge, upper, lower;
};

/* The links between the GPUs of a baseboard and its NVSwitches. */
struct sim_baseboard {
	uint32_t version; /* NVML_NVLINK_VERSION_… */
	uint32_t links;   /* of one GPU, spread evenly over the switches; 0: no NVLink */
	/* 1: the GPUs register with a fabric manager and report the state of the
	 * fabric (Hopper and later). */
	uint32_t fabric;
	/* 1: all GPUs reach the same switches; 0: only the GPUs of one PCI domain do */
	uint32_t common;
	uint32_t switch_pci_id; /* as sim_gpu.pci_id */
	uint32_t switches, switch_bus[SIM_SWITCHES];
};

struct sim_model {
	struct sim_gpu gpu; /* without values that depend on slot, node or time */
	struct sim_baseboard board;
	struct sim_place place[SIM_PLACES]; /* by slot */
	struct sim_board mig; /* all 0: it cannot be divided */
};

/* The models of a node. A model that is in the table never changes and is never
 * removed, so that it can be read without a lock: a writer adds the model before
 * it writes the first GPU of this model. The first model is the node's own, which
 * a new GPU has by default. */
struct sim_models {
	uint32_t count;
	uint32_t pad;
	struct sim_model model[SIM_MAX_MODELS];
};

/* sim_model.c. NULL: the state is damaged. */
const struct sim_model *sim_model(struct sim *sim, const struct sim_gpu *gpu);

#endif
