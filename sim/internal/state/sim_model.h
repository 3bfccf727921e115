/* sim_model.h: the description of a product. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "sim_mig.h"

#define SIM_PLACES 8

/* A place in the PCI tree. Two GPUs with the same bridge are below one host
 * bridge. Two GPUs with the same upper, if it is not 0, are below one upper
 * switch. lower works like upper. */
struct sim_place {
	uint32_t bus;
	int32_t numa_node;
	uint32_t bridge, upper, lower;
};

/* The links between the GPUs of a baseboard and its NVSwitches. */
struct sim_baseboard {
	uint32_t version; /* NVML_NVLINK_VERSION_… */
	uint32_t links;   /* of one GPU, spread evenly over the switches */
	/* The GPUs register with a fabric manager and report the state of the
	 * fabric (Hopper and later). */
	bool fabric;
	uint32_t switch_pci_id; /* as sim_gpu.pci_id */
	uint32_t switches, switch_bus[6];
};

struct sim_model {
	struct sim_gpu gpu; /* without values that depend on slot, node or time */
	const struct sim_baseboard *board; /* NULL: no NVLink */
	/* The first eight slots. The next eight have the same places in PCI
	 * domain 1. */
	const struct sim_place *place;
	struct sim_board mig; /* all 0: it cannot be divided */
};

/* sim_models.c. NULL: the product is unknown. */
const struct sim_model *sim_model(const char *name);
const struct sim_model *sim_model_at(uint32_t index);

#endif
