/* identity.c: what a GPU is. */
#include "session.h"

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GET_STRING(name, value)                                                \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, char *out, unsigned int length) \
	{                                                                      \
		ENTER_DEVICE(name, device, gpu);                               \
		return copy_string(out, length, value);                        \
	}

GET_STRING(nvmlDeviceGetName, gpu.name)
GET_STRING(nvmlDeviceGetUUID, gpu.uuid)
GET_STRING(nvmlDeviceGetSerial, gpu.serial)
GET_STRING(nvmlDeviceGetVbiosVersion, gpu.vbios)
GET_STRING(nvmlDeviceGetBoardPartNumber, gpu.board_part)

GET(nvmlDeviceGetIndex, unsigned int, device->index)
GET(nvmlDeviceGetMinorNumber, unsigned int, gpu.minor)
GET(nvmlDeviceGetBrand, nvmlBrandType_t, gpu.brand)
GET(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, gpu.architecture)
GET(nvmlDeviceGetBoardId, unsigned int, gpu.board_id)
GET(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
GET(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)
GET(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)
GET(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
GET(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, gpu.persistence)
GET(nvmlDeviceGetNumGpuCores, unsigned int, gpu.sms * gpu.cores_per_sm)

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	ENTER_DEVICE(nvmlDeviceGetCudaComputeCapability, device, gpu);
	REQUIRE(major != NULL && minor != NULL);
	*major = (int)gpu.cc_major;
	*minor = (int)gpu.cc_minor;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode)
{
	ENTER_DEVICE(nvmlDeviceGetAddressingMode, device, gpu);
	REQUIRE(mode != NULL);
	REQUIRE_VERSION(mode->version, nvmlDeviceAddressingMode_v1);
	mode->value = NVML_DEVICE_ADDRESSING_MODE_NONE;
	return NVML_SUCCESS;
}

/* administrator tells whether the caller may change modes. The kernel driver
 * asks for the capability, so root in a plain container may not. */
static bool administrator(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_SYS_ADMIN) != 0;
}

EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
	ENTER_DEVICE(nvmlDeviceSetPersistenceMode, device, gpu);
	REQUIRE(mode == NVML_FEATURE_DISABLED || mode == NVML_FEATURE_ENABLED);
	if (!administrator() || !sim_writable(session_sim()))
		return NVML_ERROR_NO_PERMISSION;
	sim_lock(session_sim());
	sim_read_gpu(session_sim(), device->slot, &gpu);
	bool same = gpu.generation == device->generation;
	if (same) {
		gpu.persistence = mode;
		sim_write_gpu(session_sim(), device->slot, &gpu);
	}
	sim_unlock(session_sim());
	return same ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

/* The first version of nvmlPciInfo_t ends before pciSubSystemId, the second
 * before busId: nothing may be written behind the end that a caller knows. */
static nvmlReturn_t pci_info(const struct sim_gpu *gpu, nvmlPciInfo_t *pci, int version)
{
	REQUIRE(pci != NULL);
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT,
		 gpu->domain & 0xffff, gpu->bus & 0xff, gpu->device & 0xff);
	pci->domain = gpu->domain;
	pci->bus = gpu->bus;
	pci->device = gpu->device;
	pci->pciDeviceId = gpu->pci_id;
	if (version >= 2)
		pci->pciSubSystemId = gpu->subsystem_id;
	if (version >= 3)
		snprintf(pci->busId, sizeof(pci->busId), NVML_DEVICE_PCI_BUS_ID_FMT, gpu->domain, gpu->bus,
			 gpu->device);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	ENTER_DEVICE(nvmlDeviceGetPciInfo, device, gpu);
	return pci_info(&gpu, pci, 1);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	ENTER_DEVICE(nvmlDeviceGetPciInfo_v2, device, gpu);
	return pci_info(&gpu, pci, 2);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	ENTER_DEVICE(nvmlDeviceGetPciInfo_v3, device, gpu);
	return pci_info(&gpu, pci, 3);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
	ENTER_DEVICE(nvmlDeviceGetPciInfoExt, device, gpu);
	REQUIRE(pci != NULL);
	REQUIRE_VERSION(pci->version, nvmlPciInfoExt_v1);
	pci->domain = gpu.domain;
	pci->bus = gpu.bus;
	pci->device = gpu.device;
	pci->pciDeviceId = gpu.pci_id;
	pci->pciSubSystemId = gpu.subsystem_id;
	pci->baseClass = 0x03; /* display controller, */
	pci->subClass = 0x02;  /* 3D */
	snprintf(pci->busId, sizeof(pci->busId), NVML_DEVICE_PCI_BUS_ID_FMT, gpu.domain, gpu.bus, gpu.device);
	return NVML_SUCCESS;
}
