package nvml

import (
	"reflect"
	"runtime"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"
)

// EventSet receives the events of the GPUs that are registered with it.
type EventSet struct {
	handle[gonvml.EventSet]
	waits *waits
}

// waits is how one event set is waited for.
type waits struct {
	mu sync.Mutex
	// device is the type of the GPUs in the set.
	device reflect.Type
	// own is nil until the first wait, and if there is no thread for the set. tried is set
	// once one was to be started.
	own   *waiter
	tried bool
}

// Event is an event that Wait returned. The GPU index of its Device is not known.
type Event struct {
	gonvml.EventData
	Device Device
}

// Wait returns the next event. It blocks until there is one, for at most limit, or
// until the use of NVML ends. If there is no event, the Return of the error is
// ERROR_TIMEOUT.
func (s EventSet) Wait(limit time.Duration) (Event, error) {
	var event Event
	var err error
	if own := s.thread(limit); own != nil {
		c := call{wait: limit, thread: own.thread()}
		err = wait(s.handle, symWait, c, func(gonvml.EventSet) (ret gonvml.Return) {
			event.EventData, ret = own.wait(limit)
			return ret
		})
	} else {
		err = s.waitHere(limit, &event.EventData)
	}
	event.Device = Device{handle[gonvml.Device]{span: s.span, raw: event.EventData.Device, gpu: noGPU}}
	return event, err
}

const symWait = "nvmlEventSetWait_v2"

// thread returns the thread that waits for the set, nil if the caller has to wait itself:
// if it need not wait, and if the library is not a real one.
func (s EventSet) thread(limit time.Duration) *waiter {
	if limit <= 0 || s.span.session.cfg.API != nil {
		return nil
	}
	w := s.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tried || w.device == nil {
		return w.own
	}
	w.tried = true
	var err error
	if w.own, err = newWaiter(s.raw, w.device); err != nil {
		s.span.session.cfg.Log.Debug("no thread for the events of nvml, waiting without", "err", err)
	}
	return w.own
}

// waitHere waits on the thread of the caller.
func (s EventSet) waitHere(limit time.Duration, event *gonvml.EventData) error {
	c := call{wait: limit}
	if limit > 0 {
		// The end of the use interrupts this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c.thread = unix.Gettid()
	}
	return wait(s.handle, symWait, c, func(set gonvml.EventSet) (ret gonvml.Return) {
		*event, ret = set.Wait(uint32(limit.Milliseconds()))
		return ret
	})
}

// Free frees the set. Nobody may wait for it.
func (s EventSet) Free() error {
	s.waits.mu.Lock()
	defer s.waits.mu.Unlock()
	if s.waits.own != nil {
		_ = s.waits.own.stop() // nothing was written through its file
		s.waits.own, s.waits.tried = nil, true
	}
	return do(s.handle, "nvmlEventSetFree", gonvml.EventSet.Free)
}

// SupportedEvents returns the set of event types that the GPU can report.
func (d Device) SupportedEvents() (uint64, error) {
	return get(d.handle, "nvmlDeviceGetSupportedEventTypes", gonvml.Device.GetSupportedEventTypes)
}

// RegisterEvents makes the GPU report events of these types to the set.
func (d Device) RegisterEvents(types uint64, set EventSet) error {
	set.waits.mu.Lock()
	set.waits.device = reflect.TypeOf(d.raw)
	set.waits.mu.Unlock()
	return do(d.handle, "nvmlDeviceRegisterEvents", func(h gonvml.Device) gonvml.Return { return h.RegisterEvents(types, set.raw) })
}
