/* identity.c: names, versions and other properties of a GPU. Kind: static. */
#include "mig.h"

#include <stdio.h>
#include <string.h>

/* text returns a text of the model, or NOT_SUPPORTED if it is unknown. */
static nvmlReturn_t text(char *out, unsigned int length, const char *value)
{
	return value[0] != '\0' ? copy_string(out, length, value) : NVML_ERROR_NOT_SUPPORTED;
}

#define GET_STRING(name, value)                                                \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, char *out, unsigned int length) \
	{                                                                      \
		ENTER_DEVICE(name, device, gpu);                               \
		return text(out, length, value);                               \
	}

/* GET_STRING_OF_BOTH is GET_STRING for an entry point that also accepts MIG
 * devices. */
#define GET_STRING_OF_BOTH(name, of_gpu, of_mig)                               \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, char *out, unsigned int length) \
	{                                                                      \
		struct mig_view view;                                          \
		ENTER(name);                                                   \
		bool mig = mig_is_handle(device);                              \
		nvmlReturn_t r = mig ? mig_view_device(device, &view) : session_device(device, &view.gpu); \
		return r == NVML_SUCCESS ? copy_string(out, length, mig ? of_mig : of_gpu) : r; \
	}

/* mig_name adds the profile to the name of the GPU, as nvidia-smi and CUDA
 * show it: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
static const char *mig_name(struct mig_view *view)
{
	size_t n = strlen(view->gpu.name);

	snprintf(view->gpu.name + n, sizeof(view->gpu.name) - n, " MIG %s", view->ci_profile.name);
	return view->gpu.name;
}

GET_STRING_OF_BOTH(nvmlDeviceGetName, view.gpu.name, mig_name(&view))
GET_STRING_OF_BOTH(nvmlDeviceGetUUID, view.gpu.uuid, view.ci->uuid)
GET_STRING(nvmlDeviceGetSerial, gpu.serial)
GET_STRING(nvmlDeviceGetVbiosVersion, gpu.vbios)
GET_STRING(nvmlDeviceGetBoardPartNumber, gpu.board_part)
GET_STRING(nvmlDeviceGetInforomImageVersion, gpu.inforom_image)

GET(nvmlDeviceGetMinorNumber, unsigned int, gpu.minor)
GET(nvmlDeviceGetBrand, nvmlBrandType_t, gpu.brand)
GET(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, gpu.architecture)
GET(nvmlDeviceGetBoardId, unsigned int, gpu.board_id)
GET(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
GET(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)
GET(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)

/* Kind: simulated. */
GET(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, gpu.persistence)

/* For other objects, nvidia-smi prints no version on these boards. */
EXPORT nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *out,
						unsigned int length)
{
	ENTER_DEVICE(nvmlDeviceGetInforomVersion, device, gpu);
	REQUIRE(object < NVML_INFOROM_COUNT);
	if (object == NVML_INFOROM_OEM)
		return text(out, length, gpu.inforom_oem);
	return object == NVML_INFOROM_ECC ? text(out, length, gpu.inforom_ecc) : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
	ENTER_DEVICE(nvmlDeviceValidateInforom, device, gpu);
	(void)gpu;
	return NVML_SUCCESS;
}

/* A node is bare metal, so nothing needs a license. Only the fields that all
 * versions of the structure have are written. */
#define LICENCE(name)                                                          \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, nvmlGridLicensableFeatures_t *features) \
	{                                                                      \
		ENTER_DEVICE(name, device, gpu);                               \
		(void)gpu;                                                     \
		REQUIRE(features != NULL);                                     \
		features->isGridLicenseSupported = 0;                          \
		features->licensableFeaturesCount = 0;                         \
		return NVML_SUCCESS;                                           \
	}

LICENCE(nvmlDeviceGetGridLicensableFeatures)
LICENCE(nvmlDeviceGetGridLicensableFeatures_v2)
LICENCE(nvmlDeviceGetGridLicensableFeatures_v3)
LICENCE(nvmlDeviceGetGridLicensableFeatures_v4)

/* Kind: simulated. nvml.h: for MIG devices the number "can be passed to
 * nvmlDeviceGetMigDeviceHandleByIndex to retrieve an identical handle". */
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	struct mig_view view;

	ENTER(nvmlDeviceGetIndex);
	REQUIRE(index != NULL);
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : session_device(device, &view.gpu);
	if (r == NVML_SUCCESS)
		*index = mig ? mig_index(&view) : device->index;
	return r;
}

/* Kind: simulated. nvml.h: for "the device or MIG device". */
EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
	struct mig_view view;

	ENTER(nvmlDeviceGetComputeMode);
	REQUIRE(mode != NULL);
	nvmlReturn_t r = mig_is_handle(device) ? mig_view_device(device, &view) : session_device(device, &view.gpu);
	if (r == NVML_SUCCESS)
		*mode = (nvmlComputeMode_t)(mig_is_handle(device) ? view.ci->compute_mode : view.gpu.compute_mode);
	return r;
}

/* Kind: simulated. nvml.h: "If MIG is enabled on a GPU, device must be MIG device handle." The mode
 * for one thread is deprecated. */
EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
	struct mig_view view;

	ENTER(nvmlDeviceSetComputeMode);
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : mig_view_gpu(device, &view);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE(mode == NVML_COMPUTEMODE_DEFAULT || mode == NVML_COMPUTEMODE_PROHIBITED ||
		mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
	REQUIRE(mig || !view.mig.mode);
	if (!capability_administrator())
		return NVML_ERROR_NO_PERMISSION;
	return (nvmlReturn_t)sim_set_compute_mode(session_sim(), mig_ref(&view.gpu), mig ? view.ci->generation : 0, mode);
}

/* nvml.h: "On MIG-enabled GPUs, querying the device's core count is currently
 * not supported using this API." */
EXPORT nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
	ENTER_VIEW(nvmlDeviceGetNumGpuCores, mig_view_gpu, device, view);
	REQUIRE(cores != NULL);
	if (view.mig.mode)
		return NVML_ERROR_NOT_SUPPORTED;
	return known_figure(view.gpu.sms * view.gpu.cores_per_sm, cores);
}

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

/* Kind: simulated. */
EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
	ENTER_DEVICE(nvmlDeviceSetPersistenceMode, device, gpu);
	REQUIRE(mode == NVML_FEATURE_DISABLED || mode == NVML_FEATURE_ENABLED);
	if (!capability_administrator() || !sim_writable(session_sim()))
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

/* The first version of nvmlPciInfo_t ends before pciSubSystemId, and the second
 * before busId. Nothing may be written behind the end of the caller's version. */
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
