/* topology.c: connections between GPUs, and to the host. Kind: simulated. */
#include "session.h"

#include <string.h>

#include "peer.h"

/* level returns the nearest point that two GPUs share on the PCI tree. */
static nvmlGpuTopologyLevel_t level(const struct sim_gpu *a, const struct sim_gpu *b)
{
	return (nvmlGpuTopologyLevel_t)peer_level(a, b);
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
							nvmlGpuTopologyLevel_t *info)
{
	struct sim_gpu other;

	ENTER_DEVICE(nvmlDeviceGetTopologyCommonAncestor, device1, gpu);
	nvmlReturn_t r = session_device(device2, &other);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE(info != NULL);
	*info = level(&gpu, &other);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t want,
						     unsigned int *count, nvmlDevice_t *devices)
{
	struct sim_gpu other;
	unsigned int found = 0;

	ENTER_DEVICE(nvmlDeviceGetTopologyNearestGpus, device, gpu);
	REQUIRE(count != NULL && (*count == 0 || devices != NULL));
	REQUIRE(want <= NVML_TOPOLOGY_SYSTEM && want % 10 == 0);
	for (uint32_t i = 0; i < session_count(); i++) {
		nvmlDevice_t d = session_at(i);
		if (d == device || session_device(d, &other) != NVML_SUCCESS || level(&gpu, &other) != want)
			continue;
		if (found < *count)
			devices[found] = d;
		found++;
	}
	if (*count == 0 || found < *count)
		*count = found;
	return NVML_SUCCESS;
}

/* p2p returns the status of one capability of two GPUs. */
static nvmlGpuP2PStatus_t p2p(const struct sim_gpu *a, const struct sim_gpu *b, nvmlGpuP2PCapsIndex_t index)
{
	bool nvlink = peer_nvlink(a, b), pci = peer_pci(a, b);

	switch (index) {
	case NVML_P2P_CAPS_INDEX_NVLINK:
	case NVML_P2P_CAPS_INDEX_ATOMICS:
		return nvlink ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
	case NVML_P2P_CAPS_INDEX_PCI:
		return pci ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
	default:
		return nvlink || pci ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
	}
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
					   nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
	struct sim_gpu other;

	ENTER_DEVICE(nvmlDeviceGetP2PStatus, device1, gpu);
	nvmlReturn_t r = session_device(device2, &other);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE(device1 != device2 && index < NVML_P2P_CAPS_INDEX_UNKNOWN && status != NULL);
	*status = p2p(&gpu, &other, index);
	return NVML_SUCCESS;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int *same)
{
	struct sim_gpu other;

	ENTER_DEVICE(nvmlDeviceOnSameBoard, device1, gpu);
	nvmlReturn_t r = session_device(device2, &other);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE(same != NULL);
	*same = gpu.board_id == other.board_id;
	return NVML_SUCCESS;
}

/* This function returns the NUMA node of the host memory next to a GPU.
 * nvmlDeviceGetNumaNodeId is for GPUs that are NUMA nodes themselves, so it is a
 * stub. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int size, unsigned long *nodes,
						nvmlAffinityScope_t scope)
{
	const unsigned int bits = 8 * sizeof(*nodes);

	ENTER_DEVICE(nvmlDeviceGetMemoryAffinity, device, gpu);
	REQUIRE(size > 0 && nodes != NULL);
	REQUIRE(scope == NVML_AFFINITY_SCOPE_NODE || scope == NVML_AFFINITY_SCOPE_SOCKET);
	if (gpu.numa_node < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(nodes, 0, size * sizeof(*nodes));
	if ((unsigned int)gpu.numa_node / bits < size)
		nodes[gpu.numa_node / bits] |= 1ul << (gpu.numa_node % bits);
	return NVML_SUCCESS;
}
