// Package nvml asks the driver, through NVML, why CUDA finds no GPU. NVML needs no working GPU. It
// opens the library at run time, because a container may have libcuda.so.1 without NVML.
package nvml

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*nvml_plain)(void);
typedef int (*nvml_count)(unsigned int *);
typedef int (*nvml_handle)(unsigned int, void **);
typedef int (*nvml_text)(void *, char *, unsigned int);

// nvml_ask returns 0 if the driver answers. Bit i of lost is set if GPU i is lost.
static int nvml_ask(void *library, unsigned long long *lost)
{
	nvml_plain init = (nvml_plain)dlsym(library, "nvmlInit_v2"), shutdown = (nvml_plain)dlsym(library, "nvmlShutdown");
	nvml_count count = (nvml_count)dlsym(library, "nvmlDeviceGetCount_v2");
	nvml_handle handle = (nvml_handle)dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	nvml_text uuid = (nvml_text)dlsym(library, "nvmlDeviceGetUUID");
	unsigned int n = 0;
	const int is_lost = 15; // NVML_ERROR_GPU_IS_LOST

	*lost = 0;
	if (!init || !shutdown || !count || !handle || !uuid || init() != 0)
		return -1;
	if (count(&n) != 0)
		n = 0;
	for (unsigned int i = 0; i < n && i < 64; i++) {
		char text[96];
		void *device;
		int result = handle(i, &device);
		if (result == 0)
			result = uuid(device, text, sizeof text);
		if (result == is_lost)
			*lost |= 1ull << i;
	}
	shutdown();
	return 0;
}
*/
import "C"

import "unsafe" // cgo passes C strings as unsafe.Pointer

// Answer is what the driver says.
type Answer struct {
	// Loaded is set if NVML could be initialized, so the driver is loaded.
	Loaded bool
	// Lost has the indices of the GPUs that have fallen off the bus.
	Lost []int
}

// Ask asks the driver through the library at path, a file or a name that the dynamic linker resolves.
// If the library is missing, the answer is empty.
func Ask(path string) Answer {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	library := C.dlopen(name, C.RTLD_LAZY|C.RTLD_LOCAL)
	if library == nil {
		return Answer{}
	}
	defer C.dlclose(library)
	var lost C.ulonglong
	if C.nvml_ask(library, &lost) != 0 {
		return Answer{}
	}
	a := Answer{Loaded: true}
	for i := 0; lost>>i != 0; i++ {
		if lost>>i&1 != 0 {
			a.Lost = append(a.Lost, i)
		}
	}
	return a
}
