/* sim_servers.h: the baseboards and servers of GPUs. Only sim_models.c includes it. */
#ifndef SIM_SERVERS_H
#define SIM_SERVERS_H

#include "simstate.h"

/* HGX A100: six switches, two links to each. */
static const struct sim_baseboard hgx_a100 = {
	.version = 4, .links = 12, .switch_pci_id = 0x1af110de,
	.switches = 6, .switch_bus = {0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9},
};

/* HGX H100: four switches, four or five links to each. */
static const struct sim_baseboard hgx_h100 = {
	.version = 6, .links = 18, .fabric = true, .switch_pci_id = 0x22a310de,
	.switches = 4, .switch_bus = {0x05, 0x06, 0x07, 0x08},
};

/* HGX B200. The links lead to two switches, as published. The values that NVML
 * reports about the switches are copied from HGX H100. */
static const struct sim_baseboard hgx_b200 = {
	.version = 7, .links = 18, .fabric = true, .switch_pci_id = 0x22a310de,
	.switches = 2, .switch_bus = {0x05, 0x06},
};

/* DGX A100: each pair of GPUs is below one upper switch and on a separate NUMA
 * node. */
static const struct sim_place places_a100[SIM_PLACES] = {
	{0x07, 3, 1, 1, 1},
	{0x0f, 3, 1, 1, 2},
	{0x47, 1, 2, 2, 3},
	{0x4e, 1, 2, 2, 4},
	{0x87, 7, 3, 3, 5},
	{0x90, 7, 3, 3, 6},
	{0xb7, 5, 4, 4, 7},
	{0xbd, 5, 4, 4, 8},
};

/* DGX H100: each GPU has a separate host bridge, and four GPUs share a NUMA
 * node. */
static const struct sim_place places_h100[SIM_PLACES] = {
	{0x1b, 0, 1, 1, 1},
	{0x43, 0, 2, 2, 2},
	{0x52, 0, 3, 3, 3},
	{0x61, 0, 4, 4, 4},
	{0x9d, 1, 5, 5, 5},
	{0xc3, 1, 6, 6, 6},
	{0xd1, 1, 7, 7, 7},
	{0xdf, 1, 8, 8, 8},
};

/* A server with a pair of GPUs on each PCIe switch, and two switches below each
 * host bridge. */
static const struct sim_place places_pcie[SIM_PLACES] = {
	{0x17, 0, 1, 1, 1},
	{0x18, 0, 1, 1, 1},
	{0x2a, 0, 1, 2, 2},
	{0x2b, 0, 1, 2, 2},
	{0x98, 1, 2, 3, 3},
	{0x99, 1, 2, 3, 3},
	{0xac, 1, 2, 4, 4},
	{0xad, 1, 2, 4, 4},
};

#endif
