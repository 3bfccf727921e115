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
}

// Buffer is device memory for float32 values.
type Buffer struct {
	pointer C.cu_deviceptr
	length  int
}

// NewContext creates a context on d and loads the kernel called name from ptx.
func (l *Library) NewContext(d Device, ptx, name string) (*Context, error) {
	runtime.LockOSThread()
	c := &Context{l: l}
	if err := c.load(d, ptx, name); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Context) load(d Device, ptx, name string) error {
	if err := c.l.check("cuCtxCreate", C.cu_ctx_create(c.l.api, &c.context, d.handle)); err != nil {
		return err
	}
	image := C.CString(ptx)
	defer C.free(unsafe.Pointer(image))
	if err := c.l.check("cuModuleLoadData", C.cu_module_load_data(c.l.api, &c.module, unsafe.Pointer(image))); err != nil {
		return err
	}
	symbol := C.CString(name)
	defer C.free(unsafe.Pointer(symbol))
	return c.l.check("cuModuleGetFunction", C.cu_module_get_function(c.l.api, &c.kernel, c.module, symbol))
}

// Upload allocates device memory and copies values into it. values must not be empty.
func (c *Context) Upload(values []float32) (Buffer, error) {
	b := Buffer{length: len(values)}
	if err := c.l.check("cuMemAlloc", C.cu_mem_alloc(c.l.api, &b.pointer, b.size())); err != nil {
		return Buffer{}, err
	}
	c.memory = append(c.memory, b.pointer)
	return b, c.l.check("cuMemcpyHtoD", C.cu_memcpy_htod(c.l.api, b.pointer, unsafe.Pointer(&values[0]), b.size()))
}

// Download copies b to values, which must have the length of the uploaded values.
func (c *Context) Download(values []float32, b Buffer) error {
	if len(values) != b.length {
		return errors.New("copy a device buffer: the lengths differ")
	}
	return c.l.check("cuMemcpyDtoH", C.cu_memcpy_dtoh(c.l.api, unsafe.Pointer(&values[0]), b.pointer, b.size()))
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
