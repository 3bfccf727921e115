/*
 * cuda_driver.h: declarations for the files of the simulated libcuda.so.1.
 *
 * The library runs no GPU code. It manages contexts, memory, modules and streams
 * as the driver API describes. It does all work immediately on the CPU, and runs
 * only the kernels of cuda_kernel.c. A launch of another kernel returns
 * CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "simstate.h"

#define EXPORT __attribute__((visibility("default")))

typedef enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
	CUDA_ERROR_INVALID_PTX = 218,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_SYSTEM_NOT_READY = 802,
	CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
	CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
	CUDA_ERROR_MPS_RPC_FAILURE = 806,
	CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
	CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct {
	char bytes[16];
} CUuuid;

/* A visible GPU, or a visible MIG device. */
struct device {
	struct sim_ref gpu;
	uint64_t instance; /* generation of the compute instance; 0: the whole GPU */
	uint64_t used;     /* bytes that this process holds */
	uint64_t limit;    /* bytes that a client of MPS may hold; 0: no limit */
	unsigned int contexts;
	struct sim_proc self; /* this process, as the state lists it */
	struct context *primary;
	unsigned int retained;
};

/* The properties of a device at one moment. */
struct seen {
	struct sim_gpu gpu;
	struct sim_ci ci; /* generation 0: the whole GPU */
	char name[160];
	char uuid[48];
	uint64_t memory; /* memory that programs can allocate, in bytes */
	uint32_t sms;
};

/* A GPU or a compute instance that CUDA_VISIBLE_DEVICES can name. */
struct choice {
	struct sim_gpu gpu;
	struct sim_ci ci; /* generation 0: the GPU */
	bool first;       /* the first choice on its GPU */
	uint64_t limit;   /* of MPS, in bytes; 0: no limit */
};
#define MAX_CHOICES (SIM_MAX_GPUS * SIM_MAX_CIS)

enum kind { KIND_CONTEXT, KIND_MODULE, KIND_FUNCTION, KIND_STREAM, KIND_EVENT, KIND_MEMORY };

/* The target of a handle. All objects are in one list, so that the library can
 * check a handle, and free the objects of a context together with it. */
struct object {
	struct object *next;
	enum kind kind;
	struct object *owner; /* freed together with it; NULL for a context */
	/* Called before the object is freed; NULL if there is nothing else to free. */
	void (*release)(struct object *object);
};

struct context {
	struct object object;
	struct device *device;
	CUresult failed; /* the result of every call after a kernel has failed */
};

/* cuda_init.c */
CUresult cuda_enter(enum sim_symbol symbol);
CUresult cuda_enter_initialized(enum sim_symbol symbol);
struct sim *cuda_sim(void);
void cuda_close(void);
int cuda_device_count(void);
struct device *cuda_device(CUdevice ordinal);
CUdevice cuda_ordinal(const struct device *device);
CUresult cuda_inspect(const struct device *device, struct seen *seen);
CUresult cuda_read(const struct device *device, struct seen *seen);
int cuda_lock(void);
void cuda_unlock(int *unused);

/* cuda_mig.c */
uint32_t cuda_choices(struct sim *sim, const struct sim_gpu *gpu, struct choice *out);
bool cuda_see(struct sim *sim, const struct sim_gpu *gpu, uint64_t instance, struct seen *seen);

/* cuda_visible.c */
uint32_t cuda_visible(struct choice *choice, uint32_t n);

/* cuda_mps.c; all need the lock */
CUresult mps_connect(void);
bool mps_client(void);
CUresult mps_check(void);
void mps_close(void);
uint32_t mps_visible(struct choice *choice, uint32_t n);

/* cuda_process.c; all need the lock */
CUresult process_begin(struct device *device);
void process_update(struct device *device);
uint64_t process_others(const struct device *device, const struct seen *seen);

/* cuda_object.c; all need the lock */
void *object_new(size_t size, enum kind kind, struct object *owner);
void *object_check(void *handle, enum kind kind);
void object_free(struct object *object);
void *object_first(enum kind kind);
void *object_next(void *object, enum kind kind);

/* cuda_context.c */
CUresult context_current(struct context **context);

/* cuda_memory.c */
void *memory_at(CUdeviceptr address, size_t size);

/* cuda_stream.c */
CUresult stream_check(CUstream stream);

/* cuda_ptx.c */
struct ptx_entry {
	char name[128];
	char signature[256]; /* types of the parameters: "b64,b64,b32" */
};
int ptx_parse(const char *text, unsigned int *target, struct ptx_entry **entries);

/* cuda_kernel.c */
struct kernel;
const struct kernel *kernel_find(const char *name, const char *signature);
CUresult kernel_run(const struct kernel *kernel, uint64_t threads, void **params);

/* LOCKED holds the library's lock to the end of the block. */
#define LOCKED __attribute__((cleanup(cuda_unlock), unused)) int locked = cuda_lock()

#define REQUIRE(condition)                                                     \
	do {                                                                   \
		if (!(condition))                                              \
			return CUDA_ERROR_INVALID_VALUE;                       \
	} while (0)

#define TRY(expression)                                                        \
	do {                                                                   \
		CUresult tried = (expression);                                 \
		if (tried != CUDA_SUCCESS)                                     \
			return tried;                                          \
	} while (0)

/* ENTER begins an entry point that needs cuInit. ENTER_CONTEXT begins an entry
 * point that uses the current context. */
#define ENTER(name)                                                            \
	TRY(cuda_enter_initialized(SIM_SYM_##name));                           \
	LOCKED

#define ENTER_CONTEXT(name, context)                                           \
	struct context *context;                                               \
	ENTER(name);                                                           \
	TRY(context_current(&context))

#endif
