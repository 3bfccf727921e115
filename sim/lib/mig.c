/* mig.c: the Multi-Instance mode of a GPU, and its MIG devices. Kind: simulated. */
#include "mig.h"

#include <stdio.h>
#include <string.h>

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	ENTER_VIEW(nvmlDeviceGetMigMode, mig_view_gpu, device, view);
	REQUIRE(current != NULL && pending != NULL);
	if (view.board == NULL)
		return NVML_ERROR_NOT_SUPPORTED;
	*current = view.mig.mode;
	*pending = view.mig.pending;
	return NVML_SUCCESS;
}

/* nvml.h: "Requires root user". Whether the mode is in force is in *activation. */
EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
	enum sim_status status = SIM_SUCCESS;

	ENTER_VIEW(nvmlDeviceSetMigMode, mig_view_gpu, device, view);
	REQUIRE(activation != NULL && mode <= NVML_DEVICE_MIG_ENABLE);
	if (view.board == NULL)
		return NVML_ERROR_NOT_SUPPORTED;
	REQUIRE_CAPABILITY(capability_administrator());
	nvmlReturn_t r = (nvmlReturn_t)sim_set_mig_mode(session_sim(), mig_ref(&view.gpu), mode, &status);
	if (r == NVML_SUCCESS)
		*activation = (nvmlReturn_t)status;
	return r;
}

/* nvml.h: "Returns zero if MIG is not supported or enabled." */
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	ENTER_VIEW(nvmlDeviceGetMaxMigDeviceCount, mig_view_gpu, device, view);
	REQUIRE(count != NULL);
	*count = view.board != NULL && view.mig.mode ? sim_max_mig_devices(view.board) : 0;
	return NVML_SUCCESS;
}

/* visible_at returns the MIG device with an index. Only the MIG devices that this
 * process sees have an index. */
static const struct sim_ci *visible_at(const struct mig_view *view, unsigned int index)
{
	const struct sim_ci *ci;

	for (uint32_t i = 0; (ci = sim_ci_at(&view->mig, i)) != NULL; i++) {
		if (mig_visible(&view->gpu, ci) && index-- == 0)
			return ci;
	}
	return NULL;
}

/* mig_index returns the index of a MIG device among the MIG devices that this
 * process sees. */
unsigned int mig_index(const struct mig_view *view)
{
	const struct sim_ci *ci;
	unsigned int index = 0;

	for (uint32_t i = 0; (ci = sim_ci_at(&view->mig, i)) != NULL && ci != view->ci; i++)
		index += mig_visible(&view->gpu, ci);
	return index;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
							nvmlDevice_t *mig_device)
{
	ENTER_VIEW(nvmlDeviceGetMigDeviceHandleByIndex, mig_view_gpu, device, view);
	REQUIRE(mig_device != NULL);
	if (view.board == NULL)
		return NVML_ERROR_NOT_SUPPORTED;
	REQUIRE(index < sim_max_mig_devices(view.board));
	const struct sim_ci *ci = visible_at(&view, index);
	if (ci == NULL)
		return NVML_ERROR_NOT_FOUND;
	*mig_device = mig_device_handle(device, ci->generation);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_device, nvmlDevice_t *device)
{
	ENTER_VIEW(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, mig_view_device, mig_device, view);
	REQUIRE(device != NULL);
	*device = view.parent;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
	struct mig_view view;

	ENTER(nvmlDeviceIsMigDeviceHandle);
	REQUIRE(is_mig != NULL);
	bool mig = mig_is_handle(device);
	nvmlReturn_t r = mig ? mig_view_device(device, &view) : session_device(device, &view.gpu);
	if (r == NVML_SUCCESS)
		*is_mig = mig;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
	ENTER_VIEW(nvmlDeviceGetGpuInstanceId, mig_view_device, device, view);
	REQUIRE(id != NULL);
	*id = view.gi->id;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
	ENTER_VIEW(nvmlDeviceGetComputeInstanceId, mig_view_device, device, view);
	REQUIRE(id != NULL);
	*id = view.ci->id;
	return NVML_SUCCESS;
}

/* attributes implements both versions. The first version ends before the memory.
 * nvml.h: "This API currently only supports MIG device handles." */
static nvmlReturn_t attributes(nvmlDevice_t device, nvmlDeviceAttributes_t *out, bool memory)
{
	struct mig_view view;

	REQUIRE(out != NULL);
	if (!mig_is_handle(device)) {
		nvmlReturn_t r = session_device(device, &view.gpu);
		return r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r;
	}
	nvmlReturn_t r = mig_view_device(device, &view);
	if (r != NVML_SUCCESS)
		return r;
	out->multiprocessorCount = view.ci_profile.sms;
	out->sharedCopyEngineCount = view.gi_profile->copy;
	out->sharedDecoderCount = view.gi_profile->decoder;
	out->sharedEncoderCount = view.gi_profile->encoder;
	out->sharedJpegCount = view.gi_profile->jpeg;
	out->sharedOfaCount = view.gi_profile->ofa;
	out->gpuInstanceSliceCount = view.gi_profile->slices;
	out->computeInstanceSliceCount = view.ci_profile.slices;
	if (memory)
		out->memorySizeMB = view.gi_profile->memory_mib;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
	ENTER(nvmlDeviceGetAttributes_v2);
	return attributes(device, out, true);
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
	ENTER(nvmlDeviceGetAttributes);
	return attributes(device, out, false);
}

/* named finds the MIG device with a UUID. It also accepts the form of drivers
 * before 470: MIG-<UUID of the GPU>/<GPU instance>/<compute instance>. */
static const struct sim_ci *named(const char *uuid, const struct sim_gpu *gpu, const struct sim_mig *mig)
{
	size_t length = strlen(gpu->uuid);
	unsigned int gi, ci;
	int end = 0;

	if (strncmp(uuid, "MIG-", 4) != 0 || strncmp(uuid + 4, gpu->uuid, length) != 0)
		return sim_ci_by_uuid(mig, uuid);
	if (sscanf(uuid + 4 + length, "/%u/%u%n", &gi, &ci, &end) != 2 || uuid[4 + length + end] != '\0')
		return NULL;
	return sim_ci_by_id(mig, gi, ci);
}

/* mig_find returns the handle of the MIG device with a UUID. */
nvmlReturn_t mig_find(const char *uuid, nvmlDevice_t *device)
{
	struct sim_gpu gpu;
	struct sim_mig mig;

	for (uint32_t i = 0; i < session_count(); i++) {
		nvmlDevice_t parent = session_at(i);
		sim_read_gpu(session_sim(), parent->slot, &gpu);
		sim_read_mig(session_sim(), parent->slot, &mig);
		const struct sim_ci *ci = named(uuid, &gpu, &mig);
		if (gpu.generation != parent->generation || ci == NULL || !mig_visible(&gpu, ci))
			continue;
		nvmlReturn_t r = session_attach(parent);
		if (r == NVML_SUCCESS)
			*device = mig_device_handle(parent, ci->generation);
		return r;
	}
	return NVML_ERROR_NOT_FOUND;
}
