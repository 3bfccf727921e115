/* nvlink.c: NVLinks and the NVLink fabric. Kind: simulated. */
#include "session.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ENTER_LINK begins an entry point for one link of a GPU. */
#define ENTER_LINK(name, device, link, out, gpu)                               \
	ENTER_DEVICE(name, device, gpu);                                       \
	if (gpu.links == 0)                                                    \
		return NVML_ERROR_NOT_SUPPORTED;                               \
	REQUIRE((link) < gpu.links && (out) != NULL)

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active)
{
	ENTER_LINK(nvmlDeviceGetNvLinkState, device, link, active, gpu);
	*active = gpu.link[link].up ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
	ENTER_LINK(nvmlDeviceGetNvLinkVersion, device, link, version, gpu);
	*version = gpu.nvlink_version;
	return NVML_SUCCESS;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
						  nvmlNvLinkCapability_t capability, unsigned int *result)
{
	ENTER_LINK(nvmlDeviceGetNvLinkCapability, device, link, result, gpu);
	REQUIRE(capability < NVML_NVLINK_CAP_COUNT);
	*result = capability != NVML_NVLINK_CAP_SLI_BRIDGE;
	return NVML_SUCCESS;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
							nvmlIntNvLinkDeviceType_t *type)
{
	ENTER_LINK(nvmlDeviceGetNvLinkRemoteDeviceType, device, link, type, gpu);
	*type = (nvmlIntNvLinkDeviceType_t)gpu.link[link].type;
	return NVML_SUCCESS;
}

/* remote describes the far end of a link, which is unknown for a link that is
 * down. It does not set pciSubSystemId, which nvml.h allows. */
static nvmlReturn_t remote(const struct sim_link *link, nvmlPciInfo_t *pci, bool with_bus_id)
{
	if (!link->up)
		return NVML_ERROR_NOT_SUPPORTED;
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT,
		 link->domain & 0xffff, link->bus & 0xff, link->device & 0xff);
	pci->domain = link->domain;
	pci->bus = link->bus;
	pci->device = link->device;
	pci->pciDeviceId = link->pci_id;
	if (with_bus_id)
		snprintf(pci->busId, sizeof(pci->busId), NVML_DEVICE_PCI_BUS_ID_FMT, link->domain, link->bus,
			 link->device);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
							nvmlPciInfo_t *pci)
{
	ENTER_LINK(nvmlDeviceGetNvLinkRemotePciInfo_v2, device, link, pci, gpu);
	return remote(&gpu.link[link], pci, true);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
	ENTER_LINK(nvmlDeviceGetNvLinkRemotePciInfo, device, link, pci, gpu);
	return remote(&gpu.link[link], pci, false);
}

/* fabric_v sets the fields that all versions have. A GPU that has not joined the
 * fabric has no cluster UUID and no clique. */
static void fabric_v(const struct sim_fabric *fabric, nvmlGpuFabricInfoV_t *info)
{
	bool joined = fabric->state == NVML_GPU_FABRIC_STATE_COMPLETED && fabric->status == NVML_SUCCESS;

	memset(info->clusterUuid, 0, sizeof(info->clusterUuid));
	if (joined)
		memcpy(info->clusterUuid, fabric->cluster, sizeof(info->clusterUuid));
	info->cliqueId = joined ? fabric->clique : 0;
	info->state = (nvmlGpuFabricState_t)fabric->state;
	info->status = (nvmlReturn_t)fabric->status;
	info->healthMask = 0;
	if (joined)
		info->healthMask = NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE
				   << NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW;
	if (info->version == nvmlGpuFabricInfo_v3) /* the second version ends before healthSummary */
		info->healthSummary = joined ? NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY
					     : NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
	nvmlGpuFabricInfoV_t v = {.version = nvmlGpuFabricInfo_v3};

	ENTER_DEVICE(nvmlDeviceGetGpuFabricInfo, device, gpu);
	REQUIRE(info != NULL);
	if (!gpu.fabric.present)
		return NVML_ERROR_NOT_SUPPORTED;
	fabric_v(&gpu.fabric, &v);
	memset(info, 0, sizeof(*info));
	memcpy(info->clusterUuid, v.clusterUuid, sizeof(info->clusterUuid));
	info->status = v.status;
	info->cliqueId = v.cliqueId;
	info->state = v.state;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
	ENTER_DEVICE(nvmlDeviceGetGpuFabricInfoV, device, gpu);
	REQUIRE(info != NULL);
	if (info->version != nvmlGpuFabricInfo_v2 && info->version != nvmlGpuFabricInfo_v3)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (!gpu.fabric.present)
		return NVML_ERROR_NOT_SUPPORTED;
	fabric_v(&gpu.fabric, info);
	return NVML_SUCCESS;
}
