/* mig_compute.c: compute instances. Kind: simulated. */
#include "mig.h"

#include <stdio.h>

/* profile_info describes a profile. All profiles of a GPU instance have its
 * engines. */
static void profile_info(const struct sim_gi_profile *gi, const struct sim_ci_profile *p,
			 nvmlComputeInstanceProfileInfo_t *out)
{
	*out = (nvmlComputeInstanceProfileInfo_t){
		.id = p->id,
		.sliceCount = p->slices,
		.instanceCount = p->max,
		.multiprocessorCount = p->sms,
		.sharedCopyEngineCount = gi->copy,
		.sharedDecoderCount = gi->decoder,
		.sharedEncoderCount = gi->encoder,
		.sharedJpegCount = gi->jpeg,
		.sharedOfaCount = gi->ofa,
	};
}

/* by_enum finds a profile. Its errors are the same as in by_enum of mig_gpu.c. */
static nvmlReturn_t by_enum(const struct mig_view *view, unsigned int profile, unsigned int engines,
			    struct sim_ci_profile *out)
{
	REQUIRE(profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT && engines < NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT);
	return sim_ci_profile(view->board, view->gi_profile, profile, out) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t by_id(const struct mig_view *view, unsigned int id, struct sim_ci_profile *out)
{
	return sim_ci_profile_by_id(view->board, view->gi_profile, id, out) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* Kind: static. */
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
								 unsigned int engines,
								 nvmlComputeInstanceProfileInfo_t *info)
{
	struct sim_ci_profile p;

	ENTER_VIEW(nvmlGpuInstanceGetComputeInstanceProfileInfo, mig_view_gi, instance, view);
	REQUIRE(info != NULL);
	nvmlReturn_t r = by_enum(&view, profile, engines, &p);
	if (r == NVML_SUCCESS)
		profile_info(view.gi_profile, &p, info);
	return r;
}

/* Kind: static. The third version is the second version with the capabilities at its end. */
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
								  unsigned int engines,
								  nvmlComputeInstanceProfileInfo_v2_t *info)
{
	nvmlComputeInstanceProfileInfo_t plain;
	struct sim_ci_profile p;

	ENTER_VIEW(nvmlGpuInstanceGetComputeInstanceProfileInfoV, mig_view_gi, instance, view);
	REQUIRE(info != NULL);
	REQUIRE(info->version == nvmlComputeInstanceProfileInfo_v2 || info->version == nvmlComputeInstanceProfileInfo_v3);
	nvmlReturn_t r = by_enum(&view, profile, engines, &p);
	if (r != NVML_SUCCESS)
		return r;
	profile_info(view.gi_profile, &p, &plain);
	*info = (nvmlComputeInstanceProfileInfo_v2_t){
		.version = info->version,
		.id = plain.id,
		.sliceCount = plain.sliceCount,
		.instanceCount = plain.instanceCount,
		.multiprocessorCount = plain.multiprocessorCount,
		.sharedCopyEngineCount = plain.sharedCopyEngineCount,
		.sharedDecoderCount = plain.sharedDecoderCount,
		.sharedEncoderCount = plain.sharedEncoderCount,
		.sharedJpegCount = plain.sharedJpegCount,
		.sharedOfaCount = plain.sharedOfaCount,
	};
	snprintf(info->name, sizeof(info->name), "%s", p.name);
	if (info->version == nvmlComputeInstanceProfileInfo_v3)
		((nvmlComputeInstanceProfileInfo_v3_t *)info)->capabilities = 0; /* no graphics */
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int id,
								       unsigned int *count)
{
	struct sim_ci_profile p;

	ENTER_VIEW(nvmlGpuInstanceGetComputeInstanceRemainingCapacity, mig_view_gi, instance, view);
	REQUIRE(count != NULL);
	nvmlReturn_t r = by_id(&view, id, &p);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	*count = sim_ci_capacity(&view.mig, view.gi, &p);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int id,
									nvmlComputeInstancePlacement_t *placements,
									unsigned int *count)
{
	struct sim_ci_profile p;

	ENTER_VIEW(nvmlGpuInstanceGetComputeInstancePossiblePlacements, mig_view_gi, instance, view);
	REQUIRE(count != NULL);
	nvmlReturn_t r = by_id(&view, id, &p);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	*count = 0;
	for (uint32_t start = 0; start < SIM_MAX_STARTS; start++) {
		if ((p.starts >> start & 1) == 0)
			continue;
		if (placements != NULL)
			placements[*count] = (nvmlComputeInstancePlacement_t){.start = start, .size = p.slices};
		++*count;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t create(struct mig_view *view, struct sim_ci_request want, nvmlComputeInstance_t *out)
{
	struct sim_ci_profile p;
	struct sim_ci made;
	nvmlReturn_t r = by_id(view, want.id, &p);

	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(capability_config());
	want.gi = view->gi->generation;
	enum sim_status status = sim_create_ci(session_sim(), mig_ref(&view->gpu), &want, &made);
	REQUIRE(status != SIM_NOT_FOUND); /* another process has destroyed the GPU instance */
	if (status != SIM_SUCCESS)
		return (nvmlReturn_t)status;
	*out = mig_ci_handle(view->parent, made.generation);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id,
							 nvmlComputeInstance_t *out)
{
	ENTER_VIEW(nvmlGpuInstanceCreateComputeInstance, mig_view_gi, instance, view);
	REQUIRE(out != NULL);
	return create(&view, (struct sim_ci_request){.id = id, .start = SIM_ANYWHERE}, out);
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int id,
								      const nvmlComputeInstancePlacement_t *placement,
								      nvmlComputeInstance_t *out)
{
	ENTER_VIEW(nvmlGpuInstanceCreateComputeInstanceWithPlacement, mig_view_gi, instance, view);
	REQUIRE(out != NULL && placement != NULL && placement->start < SIM_MAX_STARTS);
	return create(&view, (struct sim_ci_request){.id = id, .start = placement->start, .size = placement->size}, out);
}

EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance)
{
	ENTER_VIEW(nvmlComputeInstanceDestroy, mig_view_ci, instance, view);
	REQUIRE_CAPABILITY(capability_config());
	enum sim_status status = sim_destroy_ci(session_sim(), mig_ref(&view.gpu), view.ci->generation);
	REQUIRE(status != SIM_NOT_FOUND); /* another process was faster */
	return (nvmlReturn_t)status;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id,
						       nvmlComputeInstance_t *out, unsigned int *count)
{
	struct sim_ci_profile p;

	ENTER_VIEW(nvmlGpuInstanceGetComputeInstances, mig_view_gi, instance, view);
	REQUIRE(out != NULL && count != NULL);
	nvmlReturn_t r = by_id(&view, id, &p);
	if (r != NVML_SUCCESS)
		return r;
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	*count = 0;
	for (uint32_t i = 0; i < view.mig.cis; i++) {
		const struct sim_ci *ci = &view.mig.ci[i];
		if (ci->gi == view.gi->id && ci->profile == p.profile)
			out[(*count)++] = mig_ci_handle(view.parent, ci->generation);
	}
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
							  nvmlComputeInstance_t *out)
{
	ENTER_VIEW(nvmlGpuInstanceGetComputeInstanceById, mig_view_gi, instance, view);
	REQUIRE(out != NULL);
	REQUIRE_CAPABILITY(capability_config() || capability_monitor());
	const struct sim_ci *ci = sim_ci_by_id(&view.mig, view.gi->id, id);
	if (ci == NULL)
		return NVML_ERROR_NOT_FOUND;
	*out = mig_ci_handle(view.parent, ci->generation);
	return NVML_SUCCESS;
}

/* The first version of the structure ends before the placement. */
static nvmlReturn_t info(const struct mig_view *view, nvmlComputeInstanceInfo_t *out, bool placement)
{
	REQUIRE(out != NULL);
	out->device = view->parent;
	out->gpuInstance = mig_gi_handle(view->parent, view->gi->generation);
	out->id = view->ci->id;
	out->profileId = view->ci_profile.id;
	if (placement)
		out->placement = (nvmlComputeInstancePlacement_t){.start = view->ci->start, .size = view->ci->size};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *out)
{
	ENTER_VIEW(nvmlComputeInstanceGetInfo_v2, mig_view_ci, instance, view);
	return info(&view, out, true);
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *out)
{
	ENTER_VIEW(nvmlComputeInstanceGetInfo, mig_view_ci, instance, view);
	return info(&view, out, false);
}
