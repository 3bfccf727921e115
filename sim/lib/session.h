/*
 * session.h: the beginning of every NVML entry point of the library.
 *
 * An entry point begins with ENTER. ENTER counts the call, returns the code that is
 * forced for the symbol, waits for the latency, and rejects calls without a
 * session. An entry point for a GPU begins with ENTER_DEVICE, which also copies the
 * GPU's state.
 */
#ifndef SESSION_H
#define SESSION_H

/* Both the versioned and the unversioned symbols are defined here. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "simstate.h"

#define EXPORT __attribute__((visibility("default")))

/* The target of a GPU handle. It is in an array of the library, so that a handle can
 * be checked. */
struct nvmlDevice_st {
	uint32_t slot;
	uint32_t index; /* NVML's */
	uint64_t generation;
	uint32_t attached; /* the device node could be opened */
};

nvmlReturn_t session_enter(enum sim_symbol symbol);
nvmlReturn_t session_stub(enum sim_symbol symbol);
nvmlReturn_t session_device(nvmlDevice_t device, struct sim_gpu *gpu);
struct sim *session_sim(void);
uint32_t session_count(void);
nvmlDevice_t session_at(uint32_t index);
nvmlReturn_t session_attach(nvmlDevice_t device);
nvmlDevice_t session_find(uint32_t slot, uint64_t generation);

/* copy_string copies a string to a caller's buffer of length bytes. */
nvmlReturn_t copy_string(char *to, unsigned int length, const char *from);

#define ENTER(name)                                                            \
	do {                                                                   \
		nvmlReturn_t entered = session_enter(SIM_SYM_##name);          \
		if (entered != NVML_SUCCESS)                                   \
			return entered;                                        \
	} while (0)

#define ENTER_DEVICE(name, device, gpu)                                        \
	struct sim_gpu gpu;                                                    \
	ENTER(name);                                                           \
	do {                                                                   \
		nvmlReturn_t found = session_device((device), &gpu);           \
		if (found != NVML_SUCCESS)                                     \
			return found;                                          \
	} while (0)

#define REQUIRE(condition)                                                     \
	do {                                                                   \
		if (!(condition))                                              \
			return NVML_ERROR_INVALID_ARGUMENT;                    \
	} while (0)

/* REQUIRE_VERSION checks the version word of a structure. */
#define REQUIRE_VERSION(word, want)                                            \
	do {                                                                   \
		if ((word) != (want))                                          \
			return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;           \
	} while (0)

/* GET defines an entry point that returns one value of a GPU. */
#define GET(name, type, value)                                                 \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, type *out)               \
	{                                                                      \
		ENTER_DEVICE(name, device, gpu);                               \
		REQUIRE(out != NULL);                                          \
		*out = (type)(value);                                          \
		return NVML_SUCCESS;                                           \
	}

/* GET_KNOWN is GET for a figure of the model that may be unknown, which is 0. */
#define GET_KNOWN(name, value)                                                 \
	EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *out)       \
	{                                                                      \
		ENTER_DEVICE(name, device, gpu);                               \
		REQUIRE(out != NULL);                                          \
		return known_figure(value, out);                               \
	}

/* known_figure returns a figure, or NOT_SUPPORTED for 0. */
static inline nvmlReturn_t known_figure(unsigned int value, unsigned int *out)
{
	if (value == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*out = value;
	return NVML_SUCCESS;
}

#endif
