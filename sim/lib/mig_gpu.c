/* mig_gpu.c: GPU instances. Kind: simulated. */
#include "mig.h"

#include <stddef.h>
#include <stdio.h>

/* profile_info describes a profile in the form of the third version. */
static void profile_info(const struct sim_gi_profile *p, nvmlGpuInstanceProfileInfo_v3_t *out)
{
	out->id = p->id;
	out->sliceCount = p->slices;
	out->instanceCount = p->max;
	out->multiprocessorCount = p->sms;
	out->copyEngineCount = p->copy;
	out->decoderCount = p->decoder;
	out->encoderCount = p->encoder;
	out->jpegCount = p->jpeg;
	out->ofaCount = p->ofa;
	out->memorySizeMB = p->memory_mib;
	snprintf(out->name, sizeof(out->name), "MIG %s", p->name); /* as H100 and H200 with driver 580 */
	out->capabilities = 0; /* neither peer to peer nor graphics */
}

/* The second version also has isP2pSupported, and ends with the name. */
static void profile_info_v2(const struct sim_gi_profile *p, nvmlGpuInstanceProfileInfo_v2_t *out)
{
	nvmlGpuInstanceProfileInfo_v3_t info;

	profile_info(p, &info);
	*out = (nvmlGpuInstanceProfileInfo_v2_t){
		.version = nvmlGpuInstanceProfileInfo_v2,
		.id = info.id,
		.sliceCount = info.sliceCount,
		.instanceCount = info.instanceCount,
		.multiprocessorCount = info.multiprocessorCount,
		.copyEngineCount = info.copyEngineCount,
		.decoderCount = info.decoderCount,
		.encoderCount = info.encoderCount,
		.jpegCount = info.jpegCount,
		.ofaCount = info.ofaCount,
		.memorySizeMB = info.memorySizeMB,
	};
	snprintf(out->name, sizeof(out->name), "%s", info.name);
}

/* by_enum finds a profile. nvml.h: a profile that a GPU does not have is
 * NOT_SUPPORTED, and a number behind the last profile is INVALID_ARGUMENT. */
static nvmlReturn_t by_enum(const struct mig_view *view, unsigned int profile, const struct sim_gi_profile **out)
{
	REQUIRE(profile < NVML_GPU_INSTANCE_PROFILE_COUNT);
	*out = view->board != NULL ? sim_gi_profile(view->board, profile) : NULL;
	return *out != NULL ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t by_id(const struct mig_view *view, unsigned int id, const struct sim_gi_profile **out)
{
	*out = view->board != NULL ? sim_gi_profile_by_id(view->board, id) : NULL;
	return *out != NULL ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* Kind: static. Profiles are reported with and without MIG mode, because the field
 * NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE is 1. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
							nvmlGpuInstanceProfileInfo_t *info)
{
	const struct sim_gi_profile *p;

	ENTER_VIEW(nvmlDeviceGetGpuInstanceProfileInfo, mig_view_gpu, device, view);
	REQUIRE(info != NULL);
	nvmlReturn_t r = by_enum(&view, profile, &p);
	if (r != NVML_SUCCESS)
		return r;
	*info = (nvmlGpuInstanceProfileInfo_t){
		.id = p->id,
		.sliceCount = p->slices,
		.instanceCount = p->max,
		.multiprocessorCount = p->sms,
		.copyEngineCount = p->copy,
		.decoderCount = p->decoder,
		.encoderCount = p->encoder,
		.jpegCount = p->jpeg,
		.ofaCount = p->ofa,
		.memorySizeMB = p->memory_mib,
	};
	return NVML_SUCCESS;
}

/* versioned fills a structure of the caller's version. */
static nvmlReturn_t versioned(const struct sim_gi_profile *p, nvmlGpuInstanceProfileInfo_v2_t *info)
{
	switch (info->version) {
	case nvmlGpuInstanceProfileInfo_v2:
		profile_info_v2(p, info);
		return NVML_SUCCESS;
	case nvmlGpuInstanceProfileInfo_v3:
		profile_info(p, (nvmlGpuInstanceProfileInfo_v3_t *)info);
		return NVML_SUCCESS;
	default:
		return NVML_ERROR_INVALID_ARGUMENT;
	}
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
							 nvmlGpuInstanceProfileInfo_v2_t *info)
{
	const struct sim_gi_profile *p;

	ENTER_VIEW(nvmlDeviceGetGpuInstanceProfileInfoV, mig_view_gpu, device, view);
	REQUIRE(info != NULL);
	nvmlReturn_t r = by_enum(&view, profile, &p);
	return r == NVML_SUCCESS ? versioned(p, info) : r;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
							     nvmlGpuInstanceProfileInfo_v2_t *info)
{
	const struct sim_gi_profile *p;

	ENTER_VIEW(nvmlDeviceGetGpuInstanceProfileInfoByIdV, mig_view_gpu, device, view);
	REQUIRE(info != NULL);
	nvmlReturn_t r = by_id(&view, id, &p);
	return r == NVML_SUCCESS ? versioned(p, info) : r;
}

static nvmlReturn_t placements(const struct mig_view *view, unsigned int id, nvmlGpuInstancePlacement_t *out,
			       unsigned int *count)
{
	const struct sim_gi_profile *p;
	nvmlReturn_t r = by_id(view, id, &p);

	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	*count = 0;
	for (uint32_t start = 0; start < SIM_MAX_STARTS; start++) {
		if ((p->starts >> start & 1) == 0)
			continue;
		if (out != NULL)
			out[*count] = (nvmlGpuInstancePlacement_t){.start = start, .size = p->size};
		++*count;
	}
	return NVML_SUCCESS;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
								  nvmlGpuInstancePlacement_t *out,
								  unsigned int *count)
{
	ENTER_VIEW(nvmlDeviceGetGpuInstancePossiblePlacements_v2, mig_view_gpu, device, view);
	REQUIRE(count != NULL);
	return placements(&view, id, out, count);
}

/* Kind: static. Unlike the second version, the first version cannot return only the number. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
							       nvmlGpuInstancePlacement_t *out, unsigned int *count)
{
	ENTER_VIEW(nvmlDeviceGetGpuInstancePossiblePlacements, mig_view_gpu, device, view);
	REQUIRE(out != NULL && count != NULL);
	return placements(&view, id, out, count);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id,
							      unsigned int *count)
{
	const struct sim_gi_profile *p;

	ENTER_VIEW(nvmlDeviceGetGpuInstanceRemainingCapacity, mig_view_gpu, device, view);
	REQUIRE(count != NULL);
	REQUIRE_MODE(view);
	nvmlReturn_t r = by_id(&view, id, &p);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	*count = sim_gi_capacity(view.board, &view.mig, p);
	return NVML_SUCCESS;
}

static nvmlReturn_t create(struct mig_view *view, struct sim_gi_request want, nvmlGpuInstance_t *out)
{
	struct sim_gi made;

	REQUIRE_MODE(*view);
	REQUIRE_CAPABILITY(capability_config());
	nvmlReturn_t r = (nvmlReturn_t)sim_create_gi(session_sim(), mig_ref(&view->gpu), &want, &made);
	if (r != NVML_SUCCESS)
		return r;
	*out = mig_gi_handle(view->parent, made.generation);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
	ENTER_VIEW(nvmlDeviceCreateGpuInstance, mig_view_gpu, device, view);
	REQUIRE(out != NULL);
	return create(&view, (struct sim_gi_request){.id = id, .start = SIM_ANYWHERE}, out);
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
							     const nvmlGpuInstancePlacement_t *placement,
							     nvmlGpuInstance_t *out)
{
	ENTER_VIEW(nvmlDeviceCreateGpuInstanceWithPlacement, mig_view_gpu, device, view);
	REQUIRE(out != NULL && placement != NULL && placement->start < SIM_MAX_STARTS);
	return create(&view, (struct sim_gi_request){.id = id, .start = placement->start, .size = placement->size}, out);
}

/* gone converts NOT_FOUND, the status for an instance that another process has
 * just destroyed, to the error of nvml.h for its handle. */
static nvmlReturn_t gone(enum sim_status status)
{
	return status == SIM_NOT_FOUND ? NVML_ERROR_INVALID_ARGUMENT : (nvmlReturn_t)status;
}

EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
	ENTER_VIEW(nvmlGpuInstanceDestroy, mig_view_gi, instance, view);
	REQUIRE_CAPABILITY(capability_config());
	return gone(sim_destroy_gi(session_sim(), mig_ref(&view.gpu), view.gi->generation));
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out,
					      unsigned int *count)
{
	const struct sim_gi_profile *p;

	ENTER_VIEW(nvmlDeviceGetGpuInstances, mig_view_gpu, device, view);
	REQUIRE(out != NULL && count != NULL);
	REQUIRE_MODE(view);
	REQUIRE(by_id(&view, id, &p) == NVML_SUCCESS);
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	*count = 0;
	for (uint32_t i = 0; i < view.mig.gis; i++) {
		if (view.mig.gi[i].profile == p->profile)
			out[(*count)++] = mig_gi_handle(device, view.mig.gi[i].generation);
	}
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
	ENTER_VIEW(nvmlDeviceGetGpuInstanceById, mig_view_gpu, device, view);
	REQUIRE(out != NULL);
	REQUIRE_MODE(view);
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	const struct sim_gi *gi = sim_gi_by_id(&view.mig, id);
	if (gi == NULL)
		return NVML_ERROR_NOT_FOUND;
	*out = mig_gi_handle(device, gi->generation);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
	ENTER_VIEW(nvmlGpuInstanceGetInfo, mig_view_gi, instance, view);
	REQUIRE(info != NULL);
	*info = (nvmlGpuInstanceInfo_t){
		.device = view.parent,
		.id = view.gi->id,
		.profileId = view.gi_profile->id,
		.placement = {.start = view.gi->start, .size = view.gi->size},
	};
	return NVML_SUCCESS;
}
