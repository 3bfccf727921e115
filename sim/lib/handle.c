/* handle.c: the number of GPUs, and their handles. Kind: simulated. */
#include "mig.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* visible reports whether the first version of the enumeration lists a GPU. This
 * version omits GPUs that the process may not open. */
static bool visible(nvmlDevice_t device)
{
	return session_attach(device) != NVML_ERROR_NO_PERMISSION;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	ENTER(nvmlDeviceGetCount_v2);
	REQUIRE(count != NULL);
	*count = session_count();
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	ENTER(nvmlDeviceGetCount);
	REQUIRE(count != NULL);
	*count = 0;
	for (uint32_t i = 0; i < session_count(); i++)
		*count += visible(session_at(i));
	return NVML_SUCCESS;
}

static nvmlReturn_t give(nvmlDevice_t found, nvmlDevice_t *device)
{
	nvmlReturn_t r = session_attach(found);

	if (r == NVML_SUCCESS)
		*device = found;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	ENTER(nvmlDeviceGetHandleByIndex_v2);
	REQUIRE(device != NULL && index < session_count());
	return give(session_at(index), device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	ENTER(nvmlDeviceGetHandleByIndex);
	REQUIRE(device != NULL);
	for (uint32_t i = 0; i < session_count(); i++) {
		if (visible(session_at(i)) && index-- == 0)
			return give(session_at(i), device);
	}
	return NVML_ERROR_INVALID_ARGUMENT;
}

/* find returns the handle of the GPU that matches. An unplugged GPU never
 * matches. */
static nvmlReturn_t find(bool (*matches)(const struct sim_gpu *, const void *), const void *what,
			 nvmlDevice_t *device)
{
	struct sim_gpu gpu;

	for (uint32_t i = 0; i < session_count(); i++) {
		nvmlDevice_t d = session_at(i);
		sim_read_gpu(session_sim(), d->slot, &gpu);
		if (gpu.generation == d->generation && matches(&gpu, what))
			return give(d, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

static bool has_uuid(const struct sim_gpu *gpu, const void *uuid)
{
	return strcmp(gpu->uuid, uuid) == 0;
}

static bool has_serial(const struct sim_gpu *gpu, const void *serial)
{
	return strcmp(gpu->serial, serial) == 0;
}

struct pci_place {
	unsigned int domain, bus, device;
};

static bool has_place(const struct sim_gpu *gpu, const void *what)
{
	const struct pci_place *place = what;

	return gpu->domain == place->domain && gpu->bus == place->bus && gpu->device == place->device;
}

static nvmlReturn_t by_uuid(const char *uuid, nvmlDevice_t *device)
{
	return strncmp(uuid, "MIG-", 4) == 0 ? mig_find(uuid, device) : find(has_uuid, uuid, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	ENTER(nvmlDeviceGetHandleByUUID);
	REQUIRE(uuid != NULL && device != NULL);
	return by_uuid(uuid, device);
}

/* as_text writes 16 bytes in the form of a UUID. */
static void as_text(const unsigned char *byte, char text[37])
{
	int n = 0;

	for (int i = 0; i < NVML_DEVICE_UUID_BINARY_LEN; i++)
		n += sprintf(text + n, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", byte[i]);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
	char text[sizeof("GPU-") + 36];

	ENTER(nvmlDeviceGetHandleByUUIDV);
	REQUIRE(uuid != NULL && device != NULL);
	REQUIRE_VERSION(uuid->version, nvmlUUID_v1);
	REQUIRE(uuid->type == NVML_UUID_TYPE_ASCII || uuid->type == NVML_UUID_TYPE_BINARY);
	if (uuid->type == NVML_UUID_TYPE_ASCII) {
		REQUIRE(memchr(uuid->value.str, '\0', sizeof(uuid->value.str)) != NULL);
		return by_uuid(uuid->value.str, device);
	}
	/* The bytes do not show whether the UUID is of a GPU or of a MIG device. */
	memcpy(text, "GPU-", 4);
	as_text(uuid->value.bytes, text + 4);
	nvmlReturn_t r = by_uuid(text, device);
	memcpy(text, "MIG-", 4);
	return r == NVML_ERROR_NOT_FOUND ? by_uuid(text, device) : r;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	ENTER(nvmlDeviceGetHandleBySerial);
	REQUIRE(serial != NULL && device != NULL);
	return find(has_serial, serial, device);
}

/* parse_place reads the three forms of a PCI bus id, all in hexadecimal:
 * domain:bus:device.function, domain:bus:device, bus:device.function. */
static bool parse_place(const char *text, struct pci_place *place)
{
	unsigned int function = 0;
	int end = 0;

	if (sscanf(text, "%x:%x:%x.%x%n", &place->domain, &place->bus, &place->device, &function, &end) == 4 &&
	    text[end] == '\0')
		return function == 0;
	if (sscanf(text, "%x:%x:%x%n", &place->domain, &place->bus, &place->device, &end) == 3 &&
	    text[end] == '\0')
		return true;
	place->domain = 0;
	return sscanf(text, "%x:%x.%x%n", &place->bus, &place->device, &function, &end) == 3 &&
	       text[end] == '\0' && function == 0;
}

static nvmlReturn_t by_place(const char *id, nvmlDevice_t *device)
{
	struct pci_place place;

	REQUIRE(id != NULL && device != NULL && parse_place(id, &place));
	return find(has_place, &place, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
	ENTER(nvmlDeviceGetHandleByPciBusId_v2);
	return by_place(id, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
	ENTER(nvmlDeviceGetHandleByPciBusId);
	return by_place(id, device);
}
