package nvml

// #cgo LDFLAGS: -ldl -pthread
// #include "waiter.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"
	"unsafe"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"
)

// waiter waits for the events of one set on a thread that the Go runtime does not know.
// If a goroutine waits in C, the runtime of a process that does nothing else wakes up about
// sixty times until it has taken the processor from the call, and then interrupts the call
// with a signal. The user of a waiter waits as for a socket instead. One goroutine uses it.
type waiter struct {
	c *C.struct_waiter
	// done is an eventfd to which the thread adds 1 when it begins, and after each wait.
	done *os.File
	// device is the type of go-nvml's devices, which has no name for others.
	device reflect.Type
}

// newWaiter starts the thread. The set and the device come from the loaded library.
func newWaiter(set gonvml.EventSet, device reflect.Type) (*waiter, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("wait on a thread: %w", err)
	}
	w := &waiter{done: os.NewFile(uintptr(fd), "eventfd"), device: device}
	// A set, like a device, is a struct with nothing but the handle of NVML.
	if w.c = C.waiter_start(reflect.ValueOf(set).Field(0).UnsafePointer(), C.int(fd)); w.c == nil {
		return nil, errors.Join(errors.New("wait on a thread: it does not start"), w.done.Close())
	}
	if err := w.join(); err != nil {
		return nil, err
	}
	return w, nil
}

// join waits until the thread has done what it was asked for.
func (w *waiter) join() error {
	_, err := w.done.Read(make([]byte, 8))
	return err
}

// thread returns the ID of the thread, for signals.
func (w *waiter) thread() int { return int(C.waiter_thread(w.c)) }

// wait waits for one event. A signal to the thread ends it.
func (w *waiter) wait(limit time.Duration) (event gonvml.EventData, ret gonvml.Return) {
	C.waiter_ask(w.c, C.uint(limit.Milliseconds()))
	if err := w.join(); err != nil {
		return event, gonvml.ERROR_UNKNOWN
	}
	var e C.struct_event
	if ret = gonvml.Return(C.waiter_answer(w.c, &e)); ret != gonvml.SUCCESS {
		return event, ret
	}
	return gonvml.EventData{
		Device:    reflect.NewAt(w.device, unsafe.Pointer(&e.device)).Elem().Interface().(gonvml.Device),
		EventType: uint64(e._type), EventData: uint64(e.data),
		GpuInstanceId: uint32(e.gpu_instance), ComputeInstanceId: uint32(e.compute_instance),
	}, ret
}

// stop ends the thread.
func (w *waiter) stop() error {
	C.waiter_stop(w.c)
	return w.done.Close()
}
