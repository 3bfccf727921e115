package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

const (
	// waitMillis bounds one wait in NVML, which nothing can interrupt, and so
	// how long a watch takes to end: long enough to cost nothing at rest, and
	// short enough for an agent to stop within a second. An event ends it at once.
	waitMillis = 500
	// probeEvery is how often GPUs that do not answer are tried again.
	probeEvery = 2 * time.Second
	// backOff is the pause after the first failed wait; it doubles.
	backOff = 100 * time.Millisecond
	// maxFailures is how many waits in a row may fail.
	maxFailures = 6
	// maxPending bounds how many events are taken from a set that is given up.
	maxPending = 256
	// xidOffBus is "GPU has fallen off the bus".
	xidOffBus = 79
	// wantedEvents are registered where a GPU supports them. Uncorrectable
	// memory errors come as XID 48 too, so their own event is not needed.
	wantedEvents = gonvml.EventTypeXidCriticalError | gonvml.EventMigConfigChange
)

// Watch delivers XIDs, changes of MIG devices, and GPUs that stop answering or
// come back. The GPUs that it covers are those that NVML shows.
func (s *Source) Watch(ctx context.Context, deliver func(gpu.Event)) error {
	_, err := leash(s.calls, ctx.Done(), func() (struct{}, error) {
		return struct{}{}, s.watch(ctx, func(e gpu.Event) {
			// A watch that NVML held on to may come here after Watch has returned.
			if ctx.Err() == nil {
				deliver(e)
			}
		})
	})
	return err
}

func (s *Source) watch(ctx context.Context, deliver func(gpu.Event)) error {
	sess, _, err := s.use(ctx)
	if err != nil {
		return err
	}
	defer s.leave(sess)
	w := &watch{sess: sess, deliver: deliver, log: s.cfg.Log}
	err = w.run(ctx)
	var call *callError
	if errors.As(err, &call) && driverGone(call.ret) {
		err = fmt.Errorf("watch GPUs: %w: %w", gpu.ErrNoDriver, err)
		s.retire(sess, err)
	}
	return errors.Join(err, w.free())
}

// watch is one Watch that is under way.
type watch struct {
	sess    *session
	deliver func(gpu.Event)
	log     *slog.Logger

	// set is nil until there are GPUs to watch.
	set  gonvml.EventSet
	gpus []*watched
	// probed is when the silent GPUs were last tried.
	probed time.Time
	// stale is set once it was told that the kernel has other GPUs than NVML.
	stale bool
}

// watched is a GPU of a watch.
type watched struct {
	index  int
	handle gonvml.Device
	id     gpu.UUID
	// events is what is registered for the GPU in the current set.
	events uint64
	// silent GPUs do not answer.
	silent bool
	// refused is set for a GPU that answers, but failed to be registered.
	refused bool
}

// deaf reports whether the GPU answers, and gives no events.
func (g *watched) deaf() bool { return !g.silent && g.events == 0 }

func (w *watch) run(ctx context.Context) error {
	count, ret := w.sess.lib.api.DeviceGetCount()
	if ret != gonvml.SUCCESS {
		return newCallError("nvmlDeviceGetCount_v2", ret)
	}
	for i := range count {
		w.gpus = append(w.gpus, &watched{index: i})
	}
	if err := w.register(); err != nil {
		return err
	}
	w.tell(gpu.EventTopologyChanged, "")
	for failures := 0; ; {
		if over, err := w.over(ctx); over {
			return err
		}
		ret := w.next(ctx)
		switch {
		case ret == gonvml.SUCCESS || ret == gonvml.ERROR_TIMEOUT:
			failures = 0
		case driverGone(ret):
			return newCallError("nvmlEventSetWait_v2", ret)
		case ret == gonvml.ERROR_GPU_IS_LOST && failures == 0:
			// The set is of no use any more: leave the lost ones out.
			failures++
			w.findSilent()
			if err := w.register(); err != nil {
				return err
			}
		case failures == maxFailures:
			return fmt.Errorf("watch GPUs: %d waits in a row failed: %w", failures, newCallError("nvmlEventSetWait_v2", ret))
		default:
			w.log.Debug("nvml event wait failed", "err", ret.Error(), "failures", failures)
			w.pause(ctx, backOff<<failures)
			failures++
			w.findSilent()
		}
		if err := w.probe(); err != nil {
			return err
		}
	}
}

// over reports whether the watch is to end, and with what.
func (w *watch) over(ctx context.Context) (bool, error) {
	select {
	case <-ctx.Done():
		return true, nil
	case <-w.sess.done:
		return true, fmt.Errorf("watch GPUs: %w", w.sess.cause())
	default:
		return false, nil
	}
}

// pause waits for d, or until the watch is over.
func (w *watch) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.sess.done:
	case <-timer.C:
	}
}

// next waits for one event and delivers it.
func (w *watch) next(ctx context.Context) gonvml.Return {
	if w.set == nil {
		w.pause(ctx, probeEvery)
		return gonvml.SUCCESS
	}
	data, ret := w.set.Wait(waitMillis)
	if ret == gonvml.SUCCESS {
		w.event(data)
	}
	return ret
}

func (w *watch) event(data gonvml.EventData) {
	id, known := w.uuid(data.Device)
	if known && id == "" {
		// Without a name it is offered to nobody; an event without a GPU would
		// count against all the others.
		w.log.Warn("nvml event of a gpu without uuid is left out", "type", data.EventType, "data", data.EventData)
		return
	}
	e := gpu.Event{
		GPU:             id,
		GPUInstance:     data.GpuInstanceId,
		ComputeInstance: data.ComputeInstanceId,
	}
	switch data.EventType {
	case gonvml.EventTypeXidCriticalError:
		e.Kind, e.XID = gpu.EventXID, data.EventData
	case gonvml.EventMigConfigChange:
		e.Kind = gpu.EventMIGChanged
	default:
		return
	}
	w.deliver(e)
	if e.XID == xidOffBus {
		w.findSilent()
	}
}

// uuid returns the GPU of an event, and whether it is one that was registered.
// That of a GPU which is gone is known from when it was registered.
func (w *watch) uuid(h gonvml.Device) (id gpu.UUID, known bool) {
	for _, g := range w.gpus {
		if g.handle != nil && bare(g.handle) == bare(h) {
			return g.id, true
		}
	}
	text, ret := h.GetUUID()
	if id = gpu.UUID(text); ret != gonvml.SUCCESS || !id.Valid() {
		w.log.Warn("nvml event of an unknown gpu", "uuid", text, "err", ret.Error())
		return "", false
	}
	return id, false
}

func (w *watch) tell(kind gpu.EventKind, id gpu.UUID) {
	w.deliver(gpu.Event{Kind: kind, GPU: id, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance})
}

// findSilent delivers EventLost for each GPU that has stopped answering.
func (w *watch) findSilent() {
	for _, g := range w.gpus {
		if !g.silent && g.handle != nil && !answers(g.handle) {
			g.silent = true
			w.lost(g)
		}
	}
}

// lost tells of a GPU that stopped answering. One without a name is left to the
// next snapshot: an event without a GPU would count against all the others.
func (w *watch) lost(g *watched) {
	if g.id == "" {
		w.tell(gpu.EventTopologyChanged, "")
		return
	}
	w.tell(gpu.EventLost, g.id)
}

// answers asks for something that the library does not keep.
func answers(h gonvml.Device) bool {
	_, ret := h.GetMemoryInfo()
	return ret == gonvml.SUCCESS || ret == gonvml.ERROR_NOT_SUPPORTED
}

// probe tries silent GPUs again, now and then. If one answers, all are
// registered anew and EventTopologyChanged is delivered, as it is for a GPU that
// was plugged in, of which NVML does not tell. GPUs that refused to be
// registered are asked again, each on its own.
func (w *watch) probe() error {
	if time.Since(w.probed) < probeEvery {
		return nil
	}
	w.probed = time.Now()
	if !w.stale && w.sess.stale(w.sess.procRoot) {
		// The snapshot that is taken now sees that too, and begins anew.
		w.stale = true
		w.tell(gpu.EventTopologyChanged, "")
	}
	back := false
	for _, g := range w.gpus {
		if g.refused && w.set != nil {
			_ = w.sess.register(g, w.set) // a driver that is gone shows in the next wait
		}
		if !g.silent {
			continue
		}
		h, ret := w.sess.lib.api.DeviceGetHandleByIndex(g.index)
		back = back || (ret == gonvml.SUCCESS && answers(h))
	}
	if !back {
		return nil
	}
	if err := w.register(); err != nil {
		return err
	}
	w.tell(gpu.EventTopologyChanged, "")
	return nil
}
