// Package smi simulates the driver's programs of a simulated node. nvidia-smi shows and resets
// GPUs. nvidia-persistenced runs as a daemon. Package mps simulates the programs of MPS, and the
// other programs only exist as files. Package smi
// reads values from the libnvidia-ml.so.1 that the loader finds, so it has the requirements of a
// real nvidia-smi: the library, the driver and the device nodes.
package smi

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef int (*plain)(void);
typedef int (*into)(void *);
typedef int (*by_index)(unsigned int, void **);
typedef int (*of_device)(void *, void *);
typedef int (*of_device_two)(void *, void *, void *);
typedef int (*to_device)(void *, unsigned int);
typedef int (*of_device_at)(void *, unsigned int, void *);
typedef int (*of_device_kind)(void *, unsigned int, unsigned int, void *);
typedef int (*of_device_three)(void *, unsigned int, unsigned int, unsigned int, void *);
typedef int (*of_device_four)(void *, void *, void *, void *, void *);
typedef int (*of_two_devices_at)(void *, void *, unsigned int, void *);
typedef int (*affinity)(void *, unsigned int, void *, unsigned int);
typedef int (*text_of_device_at)(void *, unsigned int, char *, unsigned int);
typedef int (*text_of_device)(void *, char *, unsigned int);
typedef int (*text_of_number)(unsigned int, char *, unsigned int);
typedef int (*text)(char *, unsigned int);
typedef const char *(*message)(int);

static int call_plain(void *f) { return ((plain)f)(); }
static int call_into(void *f, void *out) { return ((into)f)(out); }
static int call_by_index(void *f, unsigned int i, void **h) { return ((by_index)f)(i, h); }
static int call_of_device(void *f, void *h, void *out) { return ((of_device)f)(h, out); }
static int call_of_device_two(void *f, void *h, void *a, void *b) { return ((of_device_two)f)(h, a, b); }
static int call_to_device(void *f, void *h, unsigned int i) { return ((to_device)f)(h, i); }
static int call_of_device_at(void *f, void *h, unsigned int i, void *out) { return ((of_device_at)f)(h, i, out); }
static int call_of_device_kind(void *f, void *h, unsigned int i, unsigned int j, void *out) { return ((of_device_kind)f)(h, i, j, out); }
static int call_of_device_three(void *f, void *h, unsigned int i, unsigned int j, unsigned int k, void *out) { return ((of_device_three)f)(h, i, j, k, out); }
static int call_of_device_four(void *f, void *h, void *a, void *b, void *c, void *d) { return ((of_device_four)f)(h, a, b, c, d); }
static int call_of_two_devices_at(void *f, void *h, void *other, unsigned int i, void *out) { return ((of_two_devices_at)f)(h, other, i, out); }
static int call_affinity(void *f, void *h, unsigned int n, void *out, unsigned int scope) { return ((affinity)f)(h, n, out, scope); }
static int call_text_of_device_at(void *f, void *h, unsigned int i, char *b, unsigned int n) { return ((text_of_device_at)f)(h, i, b, n); }
static int call_text_of_device(void *f, void *h, char *b, unsigned int n) { return ((text_of_device)f)(h, b, n); }
static int call_text_of_number(void *f, unsigned int i, char *b, unsigned int n) { return ((text_of_number)f)(i, b, n); }
static int call_text(void *f, char *b, unsigned int n) { return ((text)f)(b, n); }
static const char *call_message(void *f, int r) { return ((message)f)(r); }
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

const textSize = 256 // larger than each string of NVML

// library is a loaded and initialized libnvidia-ml.
type library struct{ handle unsafe.Pointer }

// open loads and initializes the library.
func open() (*library, error) {
	name := C.CString("libnvidia-ml.so.1")
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_LAZY)
	if handle == nil {
		return nil, fmt.Errorf("load NVML: %s; is the driver installed?", C.GoString(C.dlerror()))
	}
	l := &library{handle}
	if err := l.callPlain("nvmlInit_v2"); err != nil {
		C.dlclose(handle)
		return nil, err
	}
	return l, nil
}

func (l *library) close() error {
	err := l.callPlain("nvmlShutdown")
	C.dlclose(l.handle)
	return err
}

// driver returns the version of the kernel driver.
func (l *library) driver() (string, error) {
	return l.buffer("nvmlSystemGetDriverVersion", func(f unsafe.Pointer, buf *C.char) C.int {
		return C.call_text(f, buf, textSize)
	})
}

// systemValue writes the result of a function without a device to out.
func (l *library) systemValue(symbol string, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_into(f, out) })
}

// deviceValue writes the result of a function for a device to out.
func (l *library) deviceValue(device unsafe.Pointer, symbol string, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_of_device(f, device, out) })
}

// setDevice calls a function that sets a value of a device.
func (l *library) setDevice(device unsafe.Pointer, symbol string, value uint32) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_to_device(f, device, C.uint(value)) })
}

// deviceValues is deviceValue for a function with two results, which it writes to a and b.
func (l *library) deviceValues(device unsafe.Pointer, symbol string, a, b unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_of_device_two(f, device, a, b) })
}

// deviceValueAt is deviceValue for a function with an index or a kind.
func (l *library) deviceValueAt(device unsafe.Pointer, symbol string, i uint32, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_of_device_at(f, device, C.uint(i), out) })
}

// deviceValueAt2 is deviceValue for a function with two indices or kinds.
func (l *library) deviceValueAt2(device unsafe.Pointer, symbol string, i, j uint32, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int {
		return C.call_of_device_kind(f, device, C.uint(i), C.uint(j), out)
	})
}

// deviceValueAt3 is deviceValue for a function with three kinds.
func (l *library) deviceValueAt3(device unsafe.Pointer, symbol string, kinds [3]uint32, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int {
		return C.call_of_device_three(f, device, C.uint(kinds[0]), C.uint(kinds[1]), C.uint(kinds[2]), out)
	})
}

// deviceValues4 is deviceValue for a function with four results.
func (l *library) deviceValues4(device unsafe.Pointer, symbol string, out *[4]uint32) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int {
		return C.call_of_device_four(f, device, unsafe.Pointer(&out[0]), unsafe.Pointer(&out[1]), unsafe.Pointer(&out[2]), unsafe.Pointer(&out[3]))
	})
}

// pairValueAt is deviceValueAt for a function of two devices.
func (l *library) pairValueAt(device, other unsafe.Pointer, symbol string, i uint32, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int {
		return C.call_of_two_devices_at(f, device, other, C.uint(i), out)
	})
}

// call3 is a call of a function of two devices with a result.
func (l *library) call3(device, other unsafe.Pointer, symbol string, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_of_device_two(f, device, other, out) })
}

// deviceAffinity calls a function for a device that writes a set of size words in a scope.
func (l *library) deviceAffinity(device unsafe.Pointer, symbol string, size, scope uint32, out unsafe.Pointer) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_affinity(f, device, C.uint(size), out, C.uint(scope)) })
}

// textAt is text for a function with a kind.
func (l *library) textAt(device unsafe.Pointer, symbol string, i uint32) (string, error) {
	return l.buffer(symbol, func(f unsafe.Pointer, buf *C.char) C.int {
		return C.call_text_of_device_at(f, device, C.uint(i), buf, textSize)
	})
}

// text calls the NVML function symbol for a device, and returns the string that it writes.
func (l *library) text(device unsafe.Pointer, symbol string) (string, error) {
	return l.buffer(symbol, func(f unsafe.Pointer, buf *C.char) C.int {
		return C.call_text_of_device(f, device, buf, textSize)
	})
}

// processName returns the name of a process.
func (l *library) processName(pid uint32) (string, error) {
	return l.buffer("nvmlSystemGetProcessName", func(f unsafe.Pointer, buf *C.char) C.int {
		return C.call_text_of_number(f, C.uint(pid), buf, textSize)
	})
}

// handleOf returns the handle of the GPU with this index.
func (l *library) handleOf(index int) (handle unsafe.Pointer, err error) {
	err = l.call("nvmlDeviceGetHandleByIndex_v2", func(f unsafe.Pointer) C.int {
		return C.call_by_index(f, C.uint(index), &handle)
	})
	return handle, err
}

func (l *library) callPlain(symbol string) error {
	return l.call(symbol, func(f unsafe.Pointer) C.int { return C.call_plain(f) })
}

// buffer returns the string that the function do writes.
func (l *library) buffer(symbol string, do func(f unsafe.Pointer, buf *C.char) C.int) (string, error) {
	buf := (*C.char)(C.malloc(textSize))
	defer C.free(unsafe.Pointer(buf))
	if err := l.call(symbol, func(f unsafe.Pointer) C.int { return do(f, buf) }); err != nil {
		return "", err
	}
	return C.GoString(buf), nil
}

// call looks up the NVML function symbol, and passes it to the function do.
func (l *library) call(symbol string, do func(f unsafe.Pointer) C.int) error {
	f, err := l.symbol(symbol)
	if err != nil {
		return err
	}
	ret := int(do(f))
	if ret == 0 {
		return nil
	}
	message, err := l.symbol("nvmlErrorString")
	if err != nil {
		return err
	}
	return &nvmlError{symbol, ret, C.GoString(C.call_message(message, C.int(ret)))}
}

func (l *library) symbol(name string) (unsafe.Pointer, error) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	f := C.dlsym(l.handle, s)
	if f == nil {
		return nil, &nvmlError{name, functionNotFound, "the library has no such symbol"}
	}
	return f, nil
}

// Codes of nvmlReturn_t.
const (
	notSupported     = 3
	noPermission     = 4
	notFound         = 6
	functionNotFound = 13
)

// nvmlError is an error of NVML.
type nvmlError struct {
	symbol  string
	code    int
	message string
}

// Error implements error.
func (e *nvmlError) Error() string { return e.symbol + ": " + e.message }

// hasCode reports whether err is an NVML error with one of the codes.
func hasCode(err error, codes ...int) bool {
	e := (*nvmlError)(nil)
	return errors.As(err, &e) && slices.Contains(codes, e.code)
}
