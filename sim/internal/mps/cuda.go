package mps

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*of_number)(unsigned int);
typedef int (*to_number)(int *);
typedef int (*to_uuid)(unsigned char *, int);
typedef int (*to_context)(void **, unsigned int, int);
typedef int (*to_name)(int, const char **);

static int call_of_number(void *f, unsigned int n) { return ((of_number)f)(n); }
static int call_to_number(void *f, int *n) { return ((to_number)f)(n); }
static int call_to_uuid(void *f, unsigned char *uuid, int device) { return ((to_uuid)f)(uuid, device); }
static int call_to_context(void *f, int device) { void *context; return ((to_context)f)(&context, 0, device); }
static const char *call_to_name(void *f, int result) { const char *name = NULL; ((to_name)f)(result, &name); return name; }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe" // cgo passes C strings and functions as unsafe.Pointer
)

// cuda is a loaded libcuda. It stays loaded, because its contexts use the devices.
type cuda struct{ handle unsafe.Pointer }

// cudaError is a result of CUDA.
type cudaError struct {
	symbol, name string
	code         int
}

func (e cudaError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.symbol, e.name, e.code) }

// isOccupied reports whether another process uses a device that admits one process
// (CUDA_ERROR_DEVICE_UNAVAILABLE).
func isOccupied(err error) bool {
	const unavailable = 46
	var result cudaError
	return errors.As(err, &result) && result.code == unavailable
}

// useDevices makes a context on each visible device, and returns the UUIDs of the devices.
func useDevices() ([]string, error) {
	name := C.CString("libcuda.so.1")
	defer C.free(unsafe.Pointer(name))
	lib := cuda{C.dlopen(name, C.RTLD_LAZY)}
	if lib.handle == nil {
		return nil, fmt.Errorf("load CUDA: %s; is the driver installed?", C.GoString(C.dlerror()))
	}
	if err := lib.call("cuInit", func(f unsafe.Pointer) C.int { return C.call_of_number(f, 0) }); err != nil {
		return nil, err
	}
	var count C.int
	if err := lib.call("cuDeviceGetCount", func(f unsafe.Pointer) C.int { return C.call_to_number(f, &count) }); err != nil {
		return nil, err
	}
	var uuids []string
	for device := range count {
		uuid, err := lib.uuid(device)
		if err != nil {
			return nil, err
		}
		if err := lib.call("cuCtxCreate_v2", func(f unsafe.Pointer) C.int { return C.call_to_context(f, device) }); err != nil {
			return nil, err
		}
		uuids = append(uuids, uuid)
	}
	return uuids, nil
}

// uuid returns the UUID of a device. The first version of the function returns the UUID of the GPU
// for a MIG device, too.
func (l cuda) uuid(device C.int) (string, error) {
	var gpu, own [16]byte
	for symbol, out := range map[string]*[16]byte{"cuDeviceGetUuid": &gpu, "cuDeviceGetUuid_v2": &own} {
		err := l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_to_uuid(f, (*C.uchar)(&out[0]), device) })
		if err != nil {
			return "", err
		}
	}
	kind := "GPU"
	if own != gpu {
		kind = "MIG"
	}
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, own[:4], own[4:6], own[6:8], own[8:10], own[10:]), nil
}

// call calls a function, and returns its result as an error.
func (l cuda) call(symbol string, f func(unsafe.Pointer) C.int) error {
	address, err := l.symbol(symbol)
	if err != nil {
		return err
	}
	code := f(address)
	if code == 0 {
		return nil
	}
	result := cudaError{symbol, "unknown error", int(code)}
	if names, err := l.symbol("cuGetErrorName"); err == nil {
		if text := C.call_to_name(names, code); text != nil {
			result.name = C.GoString(text)
		}
	}
	return result
}

func (l cuda) symbol(name string) (unsafe.Pointer, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	address := C.dlsym(l.handle, text)
	if address == nil {
		return nil, fmt.Errorf("%s: this version of CUDA lacks the function", name)
	}
	return address, nil
}
