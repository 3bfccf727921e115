/* sim_core.c: open and check a state file. */
#include "simstate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim_open.h"

static const char *const symbol_names[SIM_SYMBOLS] = {
#define SIM_SYMBOL(name) #name,
#include "symbols_nvml.h"
#include "symbols_cuda.h"
#undef SIM_SYMBOL
};

const char *sim_symbol_name(uint32_t symbol)
{
	return symbol < SIM_SYMBOLS ? symbol_names[symbol] : NULL;
}

static uint64_t hash(uint64_t h, const void *data, size_t size)
{
	const unsigned char *p = data;

	while (size--)
		h = (h ^ *p++) * 0x100000001b3u; /* FNV-1a */
	return h;
}

/* sim_layout returns a checksum of the places and sizes of all fields, which must
 * be the same in two programs that share a state file. */
uint64_t sim_layout(void)
{
#define FIELD(type, field) offsetof(struct type, field), sizeof(((struct type *)0)->field)
	static const uint64_t fields[] = {
		SIM_VERSION, sizeof(struct sim_state),
		FIELD(sim_state, node), FIELD(sim_state, seq), FIELD(sim_state, latency_ns),
		FIELD(sim_state, generations), FIELD(sim_state, driver), FIELD(sim_state, gpu),
		FIELD(sim_state, ring), FIELD(sim_state, call), FIELD(sim_state, instances),
		FIELD(sim_state, mig), FIELD(sim_state, procs),
		FIELD(sim_driver, nvml_version), FIELD(sim_driver, cuda_version),
		FIELD(sim_driver, loaded), FIELD(sim_driver, loads), FIELD(sim_driver, imex_channels),
		FIELD(sim_gpu, model), FIELD(sim_gpu, compute_mode), FIELD(sim_gpu, name), FIELD(sim_gpu, uuid),
		FIELD(sim_gpu, serial), FIELD(sim_gpu, board_part), FIELD(sim_gpu, vbios),
		FIELD(sim_gpu, brand), FIELD(sim_gpu, cc_major), FIELD(sim_gpu, minor),
		FIELD(sim_gpu, domain), FIELD(sim_gpu, pci_id), FIELD(sim_gpu, numa_node),
		FIELD(sim_gpu, tree), FIELD(sim_gpu, sms), FIELD(sim_gpu, mig_capable),
		FIELD(sim_gpu, lost), FIELD(sim_gpu, persistence), FIELD(sim_gpu, fabric),
		FIELD(sim_gpu, memory_total), FIELD(sim_gpu, memory_used),
		FIELD(sim_gpu, temperature), FIELD(sim_gpu, active), FIELD(sim_gpu, flow),
		FIELD(sim_gpu, limits), FIELD(sim_gpu, power), FIELD(sim_gpu, encoders),
		FIELD(sim_gpu, bar1_total), FIELD(sim_gpu, inforom_image),
		FIELD(sim_gpu, power_min), FIELD(sim_gpu, clock), FIELD(sim_gpu, clock_max),
		FIELD(sim_gpu, pcie_gen), FIELD(sim_gpu, nvlink_version), FIELD(sim_gpu, link),
		FIELD(sim_gpu, recovery), FIELD(sim_gpu, remap_pending), FIELD(sim_gpu, resets),
		FIELD(sim_state, counters), FIELD(sim_counters, energy), FIELD(sim_counters, limited),
		FIELD(sim_counters, pcie), FIELD(sim_counters, link), FIELD(sim_counters, work),
		FIELD(sim_counters, gi), FIELD(sim_counters, link_error), FIELD(sim_counters, ecc),
		FIELD(sim_counters, power_at), sizeof(struct sim_counters),
		FIELD(sim_mig, mode), FIELD(sim_mig, pending), FIELD(sim_mig, gis), FIELD(sim_mig, cis),
		FIELD(sim_mig, gi), FIELD(sim_mig, ci), FIELD(sim_gi, id), FIELD(sim_gi, profile),
		FIELD(sim_gi, start), FIELD(sim_gi, size), sizeof(struct sim_gi), FIELD(sim_ci, id),
		FIELD(sim_ci, gi), FIELD(sim_ci, profile), FIELD(sim_ci, compute_mode), FIELD(sim_ci, start), FIELD(sim_ci, size),
		FIELD(sim_ci, uuid), sizeof(struct sim_ci), FIELD(sim_proc, slot),
		FIELD(sim_proc, generation), FIELD(sim_proc, gi), FIELD(sim_proc, memory),
		FIELD(sim_proc, ns), FIELD(sim_proc, started), FIELD(sim_proc, use), sizeof(struct sim_proc),
		FIELD(sim_fabric, present), FIELD(sim_fabric, state), FIELD(sim_fabric, status),
		FIELD(sim_fabric, clique), FIELD(sim_fabric, cluster), sizeof(struct sim_fabric),
		FIELD(sim_link, domain), FIELD(sim_link, pci_id), FIELD(sim_link, type),
		FIELD(sim_link, up), sizeof(struct sim_link),
		FIELD(sim_event, kind), FIELD(sim_event, slot), FIELD(sim_event, generation),
		FIELD(sim_event, type), FIELD(sim_event, data), FIELD(sim_event, gpu_instance),
		FIELD(sim_ring, wake), FIELD(sim_ring, event), sizeof(struct sim_event),
		FIELD(sim_call, forced), sizeof(struct sim_call),
		FIELD(sim_state, fault), FIELD(sim_fault, symbol), FIELD(sim_fault, answer),
		FIELD(sim_state, models), FIELD(sim_models, model), FIELD(sim_gpu, model_at),
		FIELD(sim_model, board), FIELD(sim_model, place), FIELD(sim_model, mig), sizeof(struct sim_model),
		FIELD(sim_board, source), FIELD(sim_board, profile), FIELD(sim_gi_profile, name),
		FIELD(sim_gi_profile, memory_mib), FIELD(sim_gi_profile, ofa), FIELD(sim_gi_profile, source),
		sizeof(struct sim_gi_profile), sizeof(struct sim_place), sizeof(struct sim_baseboard),
	};
#undef FIELD
	uint64_t h = hash(0xcbf29ce484222325u, fields, sizeof(fields));

	for (uint32_t i = 0; i < SIM_SYMBOLS; i++)
		h = hash(h, symbol_names[i], strlen(symbol_names[i]) + 1);
	return h;
}

void sim_header_init(struct sim_header *header)
{
	memset(header, 0, sizeof(*header));
	memcpy(header->magic, SIM_MAGIC, sizeof(header->magic));
	header->version = SIM_VERSION;
	header->size = sizeof(struct sim_state);
	header->layout = sim_layout();
}

/* check compares the header of an open file with the header that this program
 * expects. It checks the version before the size, because a file of another
 * version is not damaged. */
static enum sim_error check(int fd)
{
	struct sim_header h;
	struct stat st;
	ssize_t n = pread(fd, &h, sizeof(h), 0);

	if (n < 0 || fstat(fd, &st) != 0)
		return SIM_ERRNO;
	if (n != sizeof(h) || memcmp(h.magic, SIM_MAGIC, sizeof(h.magic)) != 0)
		return SIM_CORRUPT;
	if (h.version != SIM_VERSION || h.layout != sim_layout())
		return SIM_VERSION_MISMATCH;
	if (h.size != sizeof(struct sim_state) || st.st_size != (off_t)h.size)
		return SIM_CORRUPT;
	return SIM_OK;
}

static bool ends(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

/* valid_mig reports whether the instances of a GPU are within their bounds. */
static bool valid_mig(struct sim *sim, uint32_t slot)
{
	struct sim_mig mig;

	sim_read_mig(sim, slot, &mig);
	if (mig.gis > SIM_MAX_GIS || mig.cis > SIM_MAX_CIS)
		return false;
	for (uint32_t i = 0; i < mig.cis; i++) {
		if (!ends(mig.ci[i].uuid, sizeof(mig.ci[i].uuid)))
			return false;
	}
	return true;
}

/* valid_models reports whether the texts of all models end. */
static bool valid_models(const struct sim_models *models)
{
#define ENDS(field) ends(field, sizeof(field))
	if (models->count > SIM_MAX_MODELS)
		return false;
	for (uint32_t m = 0; m < models->count; m++) {
		const struct sim_board *board = &models->model[m].mig;
		if (!ENDS(models->model[m].gpu.model) || !ENDS(models->model[m].gpu.name) || !ENDS(board->source))
			return false;
		for (uint32_t i = 0; i < SIM_GI_PROFILES; i++) {
			if (!ENDS(board->profile[i].name) || !ENDS(board->profile[i].source))
				return false;
		}
	}
	return true;
#undef ENDS
}

/* valid reports whether all indices and lengths in the file are within their
 * bounds. */
static bool valid(struct sim *sim)
{
#define ENDS(field) ends(gpu.field, sizeof(gpu.field))
	struct sim_driver driver;
	struct sim_gpu gpu;

	sim_read_driver(sim, &driver);
	if (!ends(driver.version, sizeof(driver.version)) || !ends(driver.nvml_version, sizeof(driver.nvml_version)) ||
	    !ends(sim->state->node, sizeof(sim->state->node)) || !valid_models(&sim->state->models))
		return false;
	for (uint32_t slot = 0; slot < SIM_MAX_GPUS; slot++) {
		sim_read_gpu(sim, slot, &gpu);
		if (gpu.generation == 0)
			continue;
		if (gpu.minor != slot || gpu.model_at >= sim->state->models.count || gpu.links > SIM_MAX_LINKS || !ENDS(model) || !ENDS(name) || !ENDS(uuid) ||
		    !ENDS(serial) || !ENDS(board_part) || !ENDS(vbios) || !ENDS(inforom_image) || !ENDS(inforom_oem) || !ENDS(inforom_ecc) ||
		    !valid_mig(sim, slot))
			return false;
	}
	return true;
#undef ENDS
}

/* sim_open maps the state file, read-only if the process may not write it. */
enum sim_error sim_open(const char *path, struct sim **out)
{
	bool writable = true;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == EROFS && (fd = sim_open_copy(path)) < 0)
		errno = EROFS;
	if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) {
		writable = false;
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return SIM_ERRNO;

	enum sim_error err = check(fd);
	struct sim *sim = NULL;
	struct stat st;
	if (err == SIM_OK && ((sim = calloc(1, sizeof(*sim))) == NULL || fstat(fd, &st) != 0))
		err = SIM_ERRNO;
	if (err == SIM_OK) {
		sim->state = mmap(NULL, sizeof(struct sim_state),
				  PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
		if (sim->state == MAP_FAILED)
			err = SIM_ERRNO;
	}
	if (err != SIM_OK) {
		int saved = errno;
		free(sim);
		close(fd);
		errno = saved;
		return err;
	}
	sim->fd = fd;
	sim->writable = writable;
	sim->device = st.st_dev;
	sim->inode = st.st_ino;
	pthread_mutex_init(&sim->mutex, NULL);
	if (!valid(sim)) {
		sim_close(sim);
		return SIM_CORRUPT;
	}
	*out = sim;
	return SIM_OK;
}

void sim_close(struct sim *sim)
{
	munmap(sim->state, sizeof(struct sim_state));
	close(sim->fd);
	pthread_mutex_destroy(&sim->mutex);
	free(sim->proc);
	free(sim->dev);
	free(sim);
}

struct sim_state *sim_map(struct sim *sim)
{
	return sim->state;
}

bool sim_writable(const struct sim *sim)
{
	return sim->writable;
}

/* sim_same_file reports whether path still leads to the file that is open. */
bool sim_same_file(const struct sim *sim, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_dev == sim->device && st.st_ino == sim->inode;
}
