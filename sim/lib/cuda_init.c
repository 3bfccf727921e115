/* cuda_init.c: cuInit, and the GPUs that the process may use. Kind: simulated. */
#include "cuda_driver.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "place.h"

#define FABRIC_NOT_SUPPORTED 0 /* NVML_GPU_FABRIC_STATE_… */
#define FABRIC_COMPLETED 3

static struct {
	pthread_mutex_t mutex; /* guards all fields except sim and initialized */
	_Atomic(struct sim *) sim;
	atomic_bool initialized;
	int count;
	struct device device[SIM_MAX_GPUS];
} cuda = {.mutex = PTHREAD_MUTEX_INITIALIZER};

struct sim *cuda_sim(void)
{
	return atomic_load_explicit(&cuda.sim, memory_order_acquire);
}

int cuda_lock(void)
{
	return pthread_mutex_lock(&cuda.mutex);
}

void cuda_unlock(int *unused)
{
	(void)unused;
	pthread_mutex_unlock(&cuda.mutex);
}

/* cuda_enter counts a call and returns the result that is forced for its symbol. */
CUresult cuda_enter(enum sim_symbol symbol)
{
	struct sim *sim = cuda_sim();

	return sim == NULL ? CUDA_SUCCESS : (CUresult)sim_count_call(sim, symbol);
}

CUresult cuda_enter_initialized(enum sim_symbol symbol)
{
	TRY(cuda_enter(symbol));
	return atomic_load(&cuda.initialized) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/* map opens the state file, once. */
static CUresult map(void)
{
	char path[PATH_MAX];
	struct sim *sim;

	LOCKED;
	if (cuda_sim() != NULL)
		return CUDA_SUCCESS;
	if (place_state(&cuda, path, sizeof(path)) != 0)
		return CUDA_ERROR_NO_DEVICE;
	switch (sim_open(path, &sim)) {
	case SIM_OK:
		atomic_store_explicit(&cuda.sim, sim, memory_order_release);
		return CUDA_SUCCESS;
	case SIM_ERRNO:
		return CUDA_ERROR_NO_DEVICE;
	case SIM_VERSION_MISMATCH:
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	default:
		return CUDA_ERROR_UNKNOWN;
	}
}

/* nodes checks the device nodes that do not belong to a GPU. Without nvidia-uvm,
 * memory cannot be allocated, and cuInit returns CUDA_ERROR_UNKNOWN. */
static CUresult nodes(void)
{
	if (!sim_loaded(cuda_sim()) || place_access("nvidiactl") != ACCESS_ALLOWED)
		return CUDA_ERROR_NO_DEVICE;
	return place_access("nvidia-uvm") == ACCESS_ALLOWED ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* joined reports whether a GPU has joined its NVLink fabric, or has no fabric. */
static bool joined(const struct sim_fabric *fabric)
{
	return !fabric->present || fabric->state == FABRIC_NOT_SUPPORTED ||
	       (fabric->state == FABRIC_COMPLETED && fabric->status == 0);
}

/* enumerate lists the GPUs that answer and that the process may open, in the
 * order of CUDA_VISIBLE_DEVICES, or of their places on the PCI bus. */
static CUresult enumerate(void)
{
	static struct choice choice[MAX_CHOICES]; /* guarded by the lock; too large for a stack */
	struct sim_gpu gpu[SIM_MAX_GPUS];
	uint32_t found = sim_enumerate(cuda_sim(), gpu), n = 0;

	for (uint32_t i = 0; i < found; i++) {
		if (gpu[i].lost == SIM_PRESENT && place_access_gpu(gpu[i].minor) == ACCESS_ALLOWED)
			n += cuda_choices(cuda_sim(), &gpu[i], &choice[n]);
	}
	n = cuda_visible(choice, mps_visible(choice, n));
	for (uint32_t i = 0; i < n; i++) {
		if (!joined(&choice[i].gpu.fabric))
			return CUDA_ERROR_SYSTEM_NOT_READY;
		cuda.device[i] = (struct device){
			.gpu = {choice[i].gpu.minor, choice[i].gpu.generation},
			.instance = choice[i].ci.generation,
			.limit = choice[i].limit,
		};
	}
	cuda.count = (int)n;
	return n > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuInit(unsigned int flags)
{
	TRY(map());
	TRY(cuda_enter(SIM_SYM_cuInit));
	REQUIRE(flags == 0);
	LOCKED;
	if (atomic_load(&cuda.initialized))
		return CUDA_SUCCESS;
	TRY(nodes());
	TRY(mps_connect());
	CUresult result = enumerate();
	if (result == CUDA_SUCCESS)
		atomic_store(&cuda.initialized, true);
	else
		mps_close();
	return result;
}

/* cuDriverGetVersion may be called before cuInit. */
EXPORT CUresult cuDriverGetVersion(int *version)
{
	struct sim_driver driver;

	REQUIRE(version != NULL);
	TRY(map());
	TRY(cuda_enter(SIM_SYM_cuDriverGetVersion));
	sim_read_driver(cuda_sim(), &driver);
	*version = (int)driver.cuda_version;
	return CUDA_SUCCESS;
}

/* cuda_close undoes cuInit. */
void cuda_close(void)
{
	struct sim *sim = atomic_exchange(&cuda.sim, NULL);

	mps_close();
	if (sim != NULL)
		sim_close(sim);
}

int cuda_device_count(void)
{
	return cuda.count;
}

struct device *cuda_device(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < cuda.count ? &cuda.device[ordinal] : NULL;
}

CUdevice cuda_ordinal(const struct device *device)
{
	return (CUdevice)(device - cuda.device);
}

/* cuda_inspect returns the properties of a device, even if its GPU is lost. It
 * fails if the MIG instance was destroyed. */
CUresult cuda_inspect(const struct device *device, struct seen *seen)
{
	struct sim_gpu gpu;

	sim_read_gpu(cuda_sim(), device->gpu.slot, &gpu);
	if (gpu.generation != device->gpu.generation || !cuda_see(cuda_sim(), &gpu, device->instance, seen))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return CUDA_SUCCESS;
}

/* cuda_read is cuda_inspect for a device that must still answer. */
CUresult cuda_read(const struct device *device, struct seen *seen)
{
	TRY(cuda_inspect(device, seen));
	if (seen->gpu.lost != SIM_PRESENT || !sim_loaded(cuda_sim()))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return CUDA_SUCCESS;
}
