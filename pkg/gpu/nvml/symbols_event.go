package nvml

import (
	"runtime"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"
)

// EventSet receives the events of the GPUs that are registered with it.
type EventSet struct{ handle[gonvml.EventSet] }

// Event is an event that Wait returned. The GPU index of its Device is not known.
type Event struct {
	gonvml.EventData
	Device Device
}

// Wait returns the next event. It blocks until there is one, for at most limit, or
// until the session has to release NVML. If there is no event, the Return of the
// error is ERROR_TIMEOUT.
func (s EventSet) Wait(limit time.Duration) (Event, error) {
	var event Event
	c := call{wait: limit}
	if limit > 0 {
		// To end the wait early, the session sends a signal to this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c.thread = unix.Gettid()
	}
	err := wait(s.handle, "nvmlEventSetWait_v2", c, func(set gonvml.EventSet) (ret gonvml.Return) {
		event.EventData, ret = set.Wait(uint32(limit.Milliseconds()))
		return ret
	})
	event.Device = Device{handle[gonvml.Device]{span: s.span, raw: event.EventData.Device, gpu: noGPU}}
	return event, err
}

// Free frees the set. No caller may be waiting for it.
func (s EventSet) Free() error {
	return invoke(s.handle, "nvmlEventSetFree", gonvml.EventSet.Free)
}

// SupportedEvents returns the set of event types that the GPU can report.
func (d Device) SupportedEvents() (uint64, error) {
	return get(d.handle, "nvmlDeviceGetSupportedEventTypes", gonvml.Device.GetSupportedEventTypes)
}

// RegisterEvents makes the GPU report events of these types to the set.
func (d Device) RegisterEvents(types uint64, set EventSet) error {
	return invoke(d.handle, "nvmlDeviceRegisterEvents", func(h gonvml.Device) gonvml.Return { return h.RegisterEvents(types, set.raw) })
}
