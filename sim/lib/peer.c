/* peer.c: which GPUs reach each other, over PCI and over NVLink switches. */
#include "peer.h"

enum peer_level peer_level(const struct sim_gpu *a, const struct sim_gpu *b)
{
	if (a->tree[0] != b->tree[0])
		return a->numa_node == b->numa_node ? PEER_NODE : PEER_SYSTEM;
	if (a->tree[1] != b->tree[1])
		return PEER_HOSTBRIDGE;
	if (a->tree[2] != b->tree[2])
		return PEER_MULTIPLE;
	return a->tree[3] == b->tree[3] ? PEER_INTERNAL : PEER_SINGLE;
}

/* peer_nvlink reports whether both GPUs have a link that is up to one switch. */
bool peer_nvlink(const struct sim_gpu *a, const struct sim_gpu *b)
{
	for (uint32_t i = 0; i < a->links; i++) {
		for (uint32_t j = 0; j < b->links; j++) {
			const struct sim_link *x = &a->link[i], *y = &b->link[j];
			if (x->up && y->up && x->domain == y->domain && x->bus == y->bus &&
			    x->device == y->device)
				return true;
		}
	}
	return false;
}

/* peer_pci reports whether two GPUs have peer access over PCI. It does not cross
 * NUMA nodes, as on most two-socket machines. */
bool peer_pci(const struct sim_gpu *a, const struct sim_gpu *b)
{
	return peer_level(a, b) <= PEER_NODE;
}
