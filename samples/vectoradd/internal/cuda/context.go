package cuda

// #include <stdlib.h>
// #include "api.h"
import "C"

import (
	"errors"
	"runtime"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

// Context is a CUDA context on a device. CUDA binds it to an operating system thread,
// so the goroutine that creates it stays on its thread until Close, and only that
// goroutine may use it.
type Context struct {
	l       *Library
	context C.cu_handle
	module  C.cu_handle
	kernel  C.cu_handle
	memory  []C.cu_deviceptr
	host    []unsafe.Pointer
}

// Buffer is device memory for float32 values.
type Buffer struct {
	pointer C.cu_deviceptr
	length  int
}

// NewContext creates a context on d, without a kernel.
func (l *Library) NewContext(d Device) (*Context, error) {
	runtime.LockOSThread()
	c := &Context{l: l}
	if err := l.check("cuCtxCreate", C.cu_ctx_create(l.api, &c.context, d.handle)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Load loads the kernel called name from ptx, for Launch.
func (c *Context) Load(ptx, name string) error {
	image := C.CString(ptx)
	defer C.free(unsafe.Pointer(image))
	if err := c.l.check("cuModuleLoadData", C.cu_module_load_data(c.l.api, &c.module, unsafe.Pointer(image))); err != nil {
		return err
	}
	symbol := C.CString(name)
	defer C.free(unsafe.Pointer(symbol))
	return c.l.check("cuModuleGetFunction", C.cu_module_get_function(c.l.api, &c.kernel, c.module, symbol))
}

// Alloc allocates device memory for n values.
func (c *Context) Alloc(n int) (Buffer, error) {
	b := Buffer{length: n}
	if err := c.l.check("cuMemAlloc", C.cu_mem_alloc(c.l.api, &b.pointer, b.size())); err != nil {
		return Buffer{}, err
	}
	c.memory = append(c.memory, b.pointer)
	return b, nil
}

// AllocHost allocates memory of the host for n values that the kernel does not move, so that the GPU reads and writes
// it at the full speed of its bus. Close frees it.
func (c *Context) AllocHost(n int) ([]float32, error) {
	var host unsafe.Pointer
	size := Buffer{length: n}.size()
	if err := c.l.check("cuMemAllocHost", C.cu_mem_alloc_host(c.l.api, &host, size)); err != nil {
		return nil, err
	}
	c.host = append(c.host, host)
	return unsafe.Slice((*float32)(host), n), nil
}

// Upload copies values to b, which must have their length. values must not be empty.
func (c *Context) Upload(b Buffer, values []float32) error {
	if len(values) != b.length {
		return errLength
	}
	return c.l.check("cuMemcpyHtoD", C.cu_memcpy_htod(c.l.api, b.pointer, unsafe.Pointer(&values[0]), b.size()))
}

// Download copies b to values, which must have its length.
func (c *Context) Download(values []float32, b Buffer) error {
	if len(values) != b.length {
		return errLength
	}
	return c.l.check("cuMemcpyDtoH", C.cu_memcpy_dtoh(c.l.api, unsafe.Pointer(&values[0]), b.pointer, b.size()))
}

var errLength = errors.New("copy a device buffer: the lengths differ")

// CanAccess reports whether a device can access the memory of another one.
func (l *Library) CanAccess(d, peer Device) (bool, error) {
	var can C.int
	err := l.check("cuDeviceCanAccessPeer", C.cu_device_can_access_peer(l.api, &can, d.handle, peer.handle))
	return can != 0, err
}

// Access lets c, the newest context of the goroutine, access the memory of peer.
func (c *Context) Access(peer *Context) error {
	return c.l.check("cuCtxEnablePeerAccess", C.cu_ctx_enable_peer_access(c.l.api, peer.context))
}

// CopyFrom copies a buffer of peer to a buffer of c, the newest context of the goroutine, and waits for the end.
// Without access, the driver copies through the memory of the host.
func (c *Context) CopyFrom(peer *Context, to, from Buffer) error {
	if to.length != from.length {
		return errLength
	}
	err := c.l.check("cuMemcpyPeer", C.cu_memcpy_peer(c.l.api, to.pointer, c.context, from.pointer, peer.context, from.size()))
	if err != nil {
		return err
	}
	return c.l.check("cuCtxSynchronize", C.cu_ctx_synchronize(c.l.api))
}

// Launch runs kernel(a, b, sum, n) with blocks × threads, and waits until the kernel ends.
func (c *Context) Launch(blocks, threads int, a, b, sum Buffer) error {
	err := c.l.check("cuLaunchKernel", C.cu_launch_vectors(c.l.api, c.kernel, C.uint(blocks), C.uint(threads),
		a.pointer, b.pointer, sum.pointer, C.int(sum.length)))
	if err != nil {
		return err
	}
	return c.l.check("cuCtxSynchronize", C.cu_ctx_synchronize(c.l.api))
}

// Close releases all resources of the context.
func (c *Context) Close() error {
	defer runtime.UnlockOSThread()
	var errs []error
	for _, pointer := range c.memory {
		errs = append(errs, c.l.check("cuMemFree", C.cu_mem_free(c.l.api, pointer)))
	}
	for _, host := range c.host {
		errs = append(errs, c.l.check("cuMemFreeHost", C.cu_mem_free_host(c.l.api, host)))
	}
	if c.module != nil {
		errs = append(errs, c.l.check("cuModuleUnload", C.cu_module_unload(c.l.api, c.module)))
	}
	if c.context != nil {
		errs = append(errs, c.l.check("cuCtxDestroy", C.cu_ctx_destroy(c.l.api, c.context)))
	}
	return errors.Join(errs...)
}

func (b Buffer) size() C.size_t {
	return C.size_t(b.length) * C.size_t(unsafe.Sizeof(float32(0)))
}
