/* peer.h: which GPUs reach each other, for both libraries. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>

#include "simstate.h"

/* The nearest point that two GPUs share on the PCI tree, by its number in
 * nvmlGpuTopologyLevel_t. */
enum peer_level {
	PEER_INTERNAL = 0,
	PEER_SINGLE = 10,
	PEER_MULTIPLE = 20,
	PEER_HOSTBRIDGE = 30,
	PEER_NODE = 40,
	PEER_SYSTEM = 50,
};

enum peer_level peer_level(const struct sim_gpu *a, const struct sim_gpu *b);
bool peer_nvlink(const struct sim_gpu *a, const struct sim_gpu *b);
bool peer_pci(const struct sim_gpu *a, const struct sim_gpu *b);

#endif
