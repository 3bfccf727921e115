/* sim_mig.c: changes of a GPU's Multi-Instance state. */
#include "simstate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_mig_change.h"
#include "sim_mig_rules.h"

#define EVENT_MIG_CONFIG_CHANGE 0x100 /* nvmlEventMigConfigChange */

enum sim_status sim_change_begin(struct sim *sim, struct sim_ref ref, struct sim_change *change)
{
	enum sim_status status = SIM_SUCCESS;

	if (!sim_writable(sim))
		return SIM_NO_PERMISSION;
	sim_lock(sim);
	change->sim = sim;
	change->ref = ref;
	sim_read_gpu(sim, ref.slot, &change->gpu);
	sim_read_mig(sim, ref.slot, &change->mig);
	change->board = sim_board(sim, &change->gpu);
	if (change->gpu.generation == 0 || change->gpu.generation != ref.generation || change->gpu.lost != SIM_PRESENT)
		status = SIM_GPU_IS_LOST;
	else if (change->board == NULL)
		status = SIM_NOT_SUPPORTED;
	if (status != SIM_SUCCESS)
		sim_unlock(sim);
	return status;
}

enum sim_status sim_change_end(struct sim_change *change, enum sim_status status)
{
	if (status == SIM_SUCCESS)
		sim_write_mig(change->sim, change->ref.slot, &change->mig);
	sim_unlock(change->sim);
	return status;
}

void sim_post_mig_change(struct sim *sim, struct sim_ref ref)
{
	struct sim_event event = {
		.kind = SIM_EVENT_GPU,
		.slot = ref.slot,
		.generation = ref.generation,
		.type = EVENT_MIG_CONFIG_CHANGE,
		.gpu_instance = SIM_NO_INSTANCE,
		.compute_instance = SIM_NO_INSTANCE,
	};

	sim_post(sim, &event);
}

/* publish publishes a change of the instances or the mode, which is already in
 * the state: it updates the files of the kernel, and then posts the event. If
 * "gpu-sim kernel" runs, publish waits for it, because on hardware the access
 * files exist when NVML returns. */
static enum sim_status publish(struct sim_change *change)
{
	sim_write_mig(change->sim, change->ref.slot, &change->mig);
	sim_show(change->sim, change->ref.slot); /* if it fails, gpu-sim does it later */
	sim_post_mig_change(change->sim, change->ref);
	uint64_t number = sim_posted(change->sim);
	sim_unlock(change->sim);
	if (!sim_shows(change->sim, change->ref.slot))
		sim_wait_followed(change->sim, number);
	return SIM_SUCCESS;
}

void sim_clear_instances(struct sim_mig *mig)
{
	mig->gis = 0;
	mig->cis = 0;
	memset(mig->gi, 0, sizeof(mig->gi));
	memset(mig->ci, 0, sizeof(mig->ci));
}

static bool used(const struct sim_change *change, uint32_t gi, uint32_t ci)
{
	struct sim_scope scope = {change->ref, gi, ci};

	return sim_in_use(change->sim, scope);
}

/* It is not known whether hardware that needs no reset keeps a rejected change
 * as pending. Here, it does not. */
enum sim_status sim_set_mig_mode(struct sim *sim, struct sim_ref gpu, bool on, enum sim_status *activation)
{
	struct sim_change change;
	enum sim_status status = sim_change_begin(sim, gpu, &change);

	if (status != SIM_SUCCESS)
		return status;
	bool busy = used(&change, SIM_NO_INSTANCE, SIM_NO_INSTANCE);
	*activation = SIM_SUCCESS;
	if (change.mig.mode == on) {
		change.mig.pending = on;
		return sim_change_end(&change, SIM_SUCCESS);
	}
	if (change.board->mode_needs_reset) {
		*activation = busy ? SIM_IN_USE : SIM_RESET_REQUIRED;
		change.mig.pending = on;
		return sim_change_end(&change, SIM_SUCCESS);
	}
	if (busy) {
		*activation = SIM_IN_USE;
		return sim_change_end(&change, SIM_SUCCESS);
	}
	sim_clear_instances(&change.mig);
	change.mig.mode = change.mig.pending = on;
	return publish(&change);
}

/* begin_instances begins a change that needs the mode to be on. */
static enum sim_status begin_instances(struct sim *sim, struct sim_ref gpu, struct sim_change *change)
{
	enum sim_status status = sim_change_begin(sim, gpu, change);

	if (status == SIM_SUCCESS && !change->mig.mode)
		return sim_change_end(change, SIM_NOT_SUPPORTED);
	return status;
}

static uint64_t next_generation(struct sim *sim)
{
	return ++sim_map(sim)->instances;
}

enum sim_status sim_create_gi(struct sim *sim, struct sim_ref gpu, const struct sim_gi_request *want,
			      struct sim_gi *out)
{
	struct sim_change change;
	enum sim_status status = begin_instances(sim, gpu, &change);

	if (status != SIM_SUCCESS)
		return status;
	const struct sim_gi_profile *profile = sim_gi_profile_by_id(change.board, want->id);
	uint32_t start = want->start;
	if (profile == NULL)
		status = SIM_INVALID_ARGUMENT;
	else if (start == SIM_ANYWHERE)
		status = sim_gi_place(change.board, &change.mig, profile, &start);
	else if (start >= SIM_MAX_STARTS || (profile->starts >> start & 1) == 0 || want->size != profile->size)
		status = SIM_INVALID_ARGUMENT;
	else if (!sim_gi_fits(change.board, &change.mig, profile, start))
		status = SIM_INSUFFICIENT_RESOURCES;
	if (status != SIM_SUCCESS)
		return sim_change_end(&change, status);

	*out = (struct sim_gi){
		.generation = next_generation(sim),
		.id = sim_gi_number(change.board, start, profile->size),
		.profile = profile->profile,
		.start = start,
		.size = profile->size,
	};
	uint32_t at = change.mig.gis++;
	for (; at > 0 && change.mig.gi[at - 1].id > out->id; at--)
		change.mig.gi[at] = change.mig.gi[at - 1];
	change.mig.gi[at] = *out;
	return publish(&change);
}

static uint32_t free_ci_id(const struct sim_mig *mig, uint32_t gi)
{
	uint32_t id = 0;

	while (sim_ci_by_id(mig, gi, id) != NULL)
		id++;
	return id;
}

static uint64_t hash(uint64_t h, const char *text)
{
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u; /* FNV-1a */
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdu; /* spreads the last letters */
	return h ^ h >> 33;
}

/* name_ci sets the UUID of a MIG device. The driver computes the UUID from the
 * GPU, the number of the GPU instance and the first engine of the compute
 * instance (nvGenerateSmcUuid of the open kernel modules). An instance that is
 * created again in the same place therefore has the same UUID, even if its size
 * differs. */
static void name_ci(const struct sim_gpu *gpu, struct sim_ci *ci)
{
	char text[80];

	snprintf(text, sizeof(text), "%s/%u/%u", gpu->uuid, ci->gi, ci->start);
	uint64_t high = hash(0xcbf29ce484222325u, text), low = hash(high, text);
	snprintf(ci->uuid, sizeof(ci->uuid), "MIG-%08" PRIx64 "-%04" PRIx64 "-5%03" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
		 high >> 32, high >> 16 & 0xffff, high & 0xfff, 0x8000 | (low >> 48 & 0x3fff), low & 0xffffffffffff);
}

enum sim_status sim_create_ci(struct sim *sim, struct sim_ref gpu, const struct sim_ci_request *want,
			      struct sim_ci *out)
{
	struct sim_change change;
	struct sim_ci_profile profile;
	enum sim_status status = begin_instances(sim, gpu, &change);

	if (status != SIM_SUCCESS)
		return status;
	const struct sim_gi *gi = sim_gi_by_generation(&change.mig, want->gi);
	if (gi == NULL)
		return sim_change_end(&change, SIM_NOT_FOUND);
	const struct sim_gi_profile *parent = sim_gi_profile(change.board, gi->profile);
	uint32_t start = want->start;
	if (!sim_ci_profile_by_id(change.board, parent, want->id, &profile))
		status = SIM_INVALID_ARGUMENT;
	else if (start == SIM_ANYWHERE)
		status = sim_ci_place(&change.mig, gi, &profile, &start);
	else if (start >= SIM_MAX_STARTS || (profile.starts >> start & 1) == 0 || want->size != profile.slices)
		status = SIM_INVALID_ARGUMENT;
	else if (!sim_ci_fits(&change.mig, gi, &profile, start))
		status = SIM_INSUFFICIENT_RESOURCES;
	if (status != SIM_SUCCESS)
		return sim_change_end(&change, status);

	*out = (struct sim_ci){
		.generation = next_generation(sim),
		.id = free_ci_id(&change.mig, gi->id),
		.gi = gi->id,
		.profile = profile.profile,
		.start = start,
		.size = profile.slices,
	};
	name_ci(&change.gpu, out);
	uint32_t at = change.mig.cis++;
	for (; at > 0; at--) {
		const struct sim_ci *before = &change.mig.ci[at - 1];
		if (before->gi < out->gi || (before->gi == out->gi && before->id < out->id))
			break;
		change.mig.ci[at] = *before;
	}
	change.mig.ci[at] = *out;
	return publish(&change);
}

enum sim_status sim_destroy_gi(struct sim *sim, struct sim_ref gpu, uint64_t generation)
{
	struct sim_change change;
	enum sim_status status = begin_instances(sim, gpu, &change);

	if (status != SIM_SUCCESS)
		return status;
	struct sim_mig *mig = &change.mig;
	const struct sim_gi *gi = sim_gi_by_generation(mig, generation);
	if (gi == NULL)
		return sim_change_end(&change, SIM_NOT_FOUND);
	bool busy = used(&change, gi->id, SIM_NO_INSTANCE);
	for (uint32_t i = 0; i < mig->cis; i++)
		busy = busy || mig->ci[i].gi == gi->id;
	if (busy)
		return sim_change_end(&change, SIM_IN_USE);
	size_t at = gi - mig->gi;
	memmove(&mig->gi[at], &mig->gi[at + 1], (--mig->gis - at) * sizeof(mig->gi[0]));
	memset(&mig->gi[mig->gis], 0, sizeof(mig->gi[0]));
	return publish(&change);
}

enum sim_status sim_destroy_ci(struct sim *sim, struct sim_ref gpu, uint64_t generation)
{
	struct sim_change change;
	enum sim_status status = begin_instances(sim, gpu, &change);

	if (status != SIM_SUCCESS)
		return status;
	struct sim_mig *mig = &change.mig;
	const struct sim_ci *ci = sim_ci_by_generation(mig, generation);
	if (ci == NULL)
		return sim_change_end(&change, SIM_NOT_FOUND);
	if (used(&change, ci->gi, ci->id))
		return sim_change_end(&change, SIM_IN_USE);
	size_t at = ci - mig->ci;
	memmove(&mig->ci[at], &mig->ci[at + 1], (--mig->cis - at) * sizeof(mig->ci[0]));
	memset(&mig->ci[mig->cis], 0, sizeof(mig->ci[0]));
	return publish(&change);
}
