// Package smi plays the programs of the driver that a simulated node has:
// nvidia-smi as far as it lists GPUs, the others by name only. What it lists
// comes from the libnvidia-ml.so.1 that the loader finds, so it needs what a
// real nvidia-smi needs: the library, the driver and the device nodes.
package smi

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*plain)(void);
typedef int (*get_count)(unsigned int *);
typedef int (*get_handle)(unsigned int, void **);
typedef int (*get_part)(void *, unsigned int, void **);
typedef int (*get_number)(void *, unsigned int *);
typedef int (*get_text)(void *, char *, unsigned int);
typedef int (*get_system_text)(char *, unsigned int);
typedef const char *(*get_message)(int);

static int call_plain(void *f) { return ((plain)f)(); }
static int call_count(void *f, unsigned int *n) { return ((get_count)f)(n); }
static int call_handle(void *f, unsigned int i, void **h) { return ((get_handle)f)(i, h); }
static int call_part(void *f, void *h, unsigned int i, void **p) { return ((get_part)f)(h, i, p); }
static int call_number(void *f, void *h, unsigned int *n) { return ((get_number)f)(h, n); }
static int call_text(void *f, void *h, char *b, unsigned int n) { return ((get_text)f)(h, b, n); }
static int call_system_text(void *f, char *b, unsigned int n) { return ((get_system_text)f)(b, n); }
static const char *call_message(void *f, int r) { return ((get_message)f)(r); }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

const textSize = 96 // NVML's longest string buffer here

// library is a loaded and initialised libnvidia-ml.
type library struct{ handle unsafe.Pointer }

// gpu is what NVML says of one GPU. A GPU that does not answer has err.
type gpu struct {
	index      int
	uuid, name string
	mig        []migDevice
	err        error
}

// migDevice is what NVML says of a MIG device that this process may use.
type migDevice struct {
	index      int
	uuid, name string
}

// notFound is NVML_ERROR_NOT_FOUND: there is no MIG device with this index.
const notFound = 6

// open loads and initialises the library.
func open() (*library, error) {
	name := C.CString("libnvidia-ml.so.1")
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_LAZY)
	if handle == nil {
		return nil, fmt.Errorf("load NVML: %s; is the driver installed?", C.GoString(C.dlerror()))
	}
	l := &library{handle}
	if err := l.plain("nvmlInit_v2"); err != nil {
		C.dlclose(handle)
		return nil, err
	}
	return l, nil
}

func (l *library) close() error {
	err := l.plain("nvmlShutdown")
	C.dlclose(l.handle)
	return err
}

// driver returns the version of the kernel driver.
func (l *library) driver() (string, error) {
	f, err := l.symbol("nvmlSystemGetDriverVersion")
	if err != nil {
		return "", err
	}
	buf := (*C.char)(C.malloc(textSize))
	defer C.free(unsafe.Pointer(buf))
	if err := l.check("nvmlSystemGetDriverVersion", C.call_system_text(f, buf, textSize)); err != nil {
		return "", err
	}
	return C.GoString(buf), nil
}

// gpus lists all GPUs.
func (l *library) gpus() ([]gpu, error) {
	f, err := l.symbol("nvmlDeviceGetCount_v2")
	if err != nil {
		return nil, err
	}
	var n C.uint
	if err := l.check("nvmlDeviceGetCount_v2", C.call_count(f, &n)); err != nil {
		return nil, err
	}
	var gpus []gpu
	for i := range int(n) {
		gpus = append(gpus, l.gpu(i))
	}
	return gpus, nil
}

func (l *library) gpu(index int) gpu {
	g := gpu{index: index}
	f, err := l.symbol("nvmlDeviceGetHandleByIndex_v2")
	if err != nil {
		g.err = err
		return g
	}
	var handle unsafe.Pointer
	if g.err = l.check("nvmlDeviceGetHandleByIndex_v2", C.call_handle(f, C.uint(index), &handle)); g.err != nil {
		return g
	}
	var errUUID, errName error
	g.uuid, errUUID = l.text("nvmlDeviceGetUUID", handle)
	g.name, errName = l.text("nvmlDeviceGetName", handle)
	var errMIG error
	g.mig, errMIG = l.migDevices(handle)
	g.err = errors.Join(errUUID, errName, errMIG)
	return g
}

// migDevices lists the MIG devices of a GPU, of which there are none where it
// is not divided.
func (l *library) migDevices(gpu unsafe.Pointer) ([]migDevice, error) {
	count, errCount := l.symbol("nvmlDeviceGetMaxMigDeviceCount")
	part, errPart := l.symbol("nvmlDeviceGetMigDeviceHandleByIndex")
	if err := errors.Join(errCount, errPart); err != nil {
		return nil, err
	}
	var n C.uint
	if err := l.check("nvmlDeviceGetMaxMigDeviceCount", C.call_number(count, gpu, &n)); err != nil {
		return nil, err
	}
	var list []migDevice
	for i := range n {
		var handle unsafe.Pointer
		ret := C.call_part(part, gpu, i, &handle)
		if ret == notFound {
			continue
		}
		if err := l.check("nvmlDeviceGetMigDeviceHandleByIndex", ret); err != nil {
			return nil, err
		}
		m := migDevice{index: int(i)}
		var errUUID, errName error
		m.uuid, errUUID = l.text("nvmlDeviceGetUUID", handle)
		m.name, errName = l.text("nvmlDeviceGetName", handle)
		if err := errors.Join(errUUID, errName); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func (l *library) text(symbol string, handle unsafe.Pointer) (string, error) {
	f, err := l.symbol(symbol)
	if err != nil {
		return "", err
	}
	buf := (*C.char)(C.malloc(textSize))
	defer C.free(unsafe.Pointer(buf))
	if err := l.check(symbol, C.call_text(f, handle, buf, textSize)); err != nil {
		return "", err
	}
	return C.GoString(buf), nil
}

func (l *library) plain(symbol string) error {
	f, err := l.symbol(symbol)
	if err != nil {
		return err
	}
	return l.check(symbol, C.call_plain(f))
}

func (l *library) symbol(name string) (unsafe.Pointer, error) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	f := C.dlsym(l.handle, s)
	if f == nil {
		return nil, fmt.Errorf("load NVML: no symbol %s", name)
	}
	return f, nil
}

func (l *library) check(symbol string, ret C.int) error {
	if ret == 0 {
		return nil
	}
	f, err := l.symbol("nvmlErrorString")
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", symbol, C.GoString(C.call_message(f, ret)))
}
