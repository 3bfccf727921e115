// Package cuda calls the CUDA driver API in the library of the node's driver. It opens
// the library at run time, so the program is built without NVIDIA's toolkit, and
// starts and reports a clear error without a driver.
package cuda

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "api.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

// Library is an opened libcuda.so.1.
type Library struct {
	path string
	api  *C.cu_api
}

// Open binds the library at path, which is a file or a name that the dynamic linker
// resolves. It fails with ErrNoLibrary or ErrNoSymbol.
func Open(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	l := &Library{path: path, api: (*C.cu_api)(C.calloc(1, C.sizeof_cu_api))}

	var missing *C.char
	reason := C.cu_open(name, l.api, &missing)
	if reason == nil {
		return l, nil
	}
	defer C.free(unsafe.Pointer(reason))
	C.free(unsafe.Pointer(l.api))
	if missing != nil {
		return nil, fmt.Errorf("bind %s of %s: %w: %s", C.GoString(missing), path, ErrNoSymbol, C.GoString(reason))
	}
	return nil, fmt.Errorf("open %s: %w: %s", path, ErrNoLibrary, C.GoString(reason))
}

// Close releases the library.
func (l *Library) Close() {
	C.cu_close(l.api)
	C.free(unsafe.Pointer(l.api))
}

// Init initializes the driver. Only Version may be called before it.
func (l *Library) Init() error {
	return l.check("cuInit", C.cu_init(l.api))
}

// Version is a CUDA version as the driver reports it: 1000 × major + 10 × minor.
type Version int

func (v Version) String() string {
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

// Version returns the newest CUDA version that the driver supports.
func (l *Library) Version() (Version, error) {
	var version C.int
	err := l.check("cuDriverGetVersion", C.cu_driver_get_version(l.api, &version))
	return Version(version), err
}

// Device is a GPU, or a MIG device, that this process may use.
type Device struct {
	// Index is the position among the visible devices.
	Index int
	UUID  string
	Name  string

	handle C.cu_device
}

// Devices returns the visible devices in CUDA's order.
func (l *Library) Devices() ([]Device, error) {
	var count C.int
	if err := l.check("cuDeviceGetCount", C.cu_device_get_count(l.api, &count)); err != nil {
		return nil, err
	}
	devices := make([]Device, int(count))
	for i := range devices {
		d, err := l.device(i)
		if err != nil {
			return nil, fmt.Errorf("read device %d: %w", i, err)
		}
		devices[i] = d
	}
	return devices, nil
}

func (l *Library) device(index int) (Device, error) {
	d := Device{Index: index}
	var name [256]C.char
	var uuid C.cu_uuid
	err := errors.Join(
		l.check("cuDeviceGet", C.cu_device_get(l.api, &d.handle, C.int(index))),
		l.check("cuDeviceGetName", C.cu_device_get_name(l.api, &name[0], C.int(len(name)), d.handle)),
		l.check("cuDeviceGetUuid", C.cu_device_get_uuid(l.api, &uuid, d.handle)),
	)
	d.Name = C.GoString(&name[0])
	d.UUID = formatUUID(d.Name, C.GoBytes(unsafe.Pointer(&uuid), C.sizeof_cu_uuid))
	return d, err
}

// formatUUID formats a UUID as NVML does. CUDA returns only the bytes, and the name
// shows whether a device is a MIG device: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
func formatUUID(name string, b []byte) string {
	kind := "GPU"
	if strings.Contains(name, " MIG ") {
		kind = "MIG"
	}
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// check returns the result of the call op as an error, nil for success.
func (l *Library) check(op string, result C.cu_result) error {
	if result == 0 {
		return nil
	}
	return &Error{
		Op: op, Code: Code(result),
		Name: C.GoString(C.cu_error_name(l.api, result)),
		Text: C.GoString(C.cu_error_string(l.api, result)),
	}
}
