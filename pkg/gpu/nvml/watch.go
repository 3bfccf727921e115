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
	// wantedEvents are registered where a GPU supports them. Uncorrectable
	// memory errors come as XID 48 too, so their own event is not needed.
	wantedEvents = gonvml.EventTypeXidCriticalError | gonvml.EventMigConfigChange | gonvml.EventTypeGpuRecoveryAction
)

// Watch delivers XIDs, changes of MIG devices, of the recovery that the driver
// asks for and of NVLink fabrics, and GPUs that stop answering or come back. The
// GPUs that it covers are those that NVML shows.
//
// At rest it makes no call but to wait for events. GPUs that a snapshot has shown
// on their way into a fabric are asked every 2 s until they have joined it, and
// every minute after that if other nodes share it. Whether a GPU still answers is
// asked where there is a cause: a wait that fails, and an XID, which the driver
// sends before a GPU falls silent.
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
	w := &watch{sess: sess, deliver: deliver, log: s.cfg.Log, fabrics: sess.fabrics.changed()}
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
	// fabrics is the count of changes of fabrics that was told.
	fabrics int
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
	// undivided is set for a GPU without MIG mode.
	undivided bool
	// layout is what was last seen of the MIG devices of a GPU that does not tell
	// of changes; empty if nothing was.
	layout string
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
		case (ret == gonvml.ERROR_GPU_IS_LOST || ret == gonvml.ERROR_RESET_REQUIRED) && failures == 0:
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
	switch data.EventType {
	case gonvml.EventTypeXidCriticalError:
		w.deliver(gpu.Event{
			Kind: gpu.EventXID, GPU: id, XID: data.EventData,
			GPUInstance: data.GpuInstanceId, ComputeInstance: data.ComputeInstanceId,
		})
		w.findSilentOf(data.Device)
	case gonvml.EventMigConfigChange:
		w.tell(gpu.EventMIGChanged, id)
	case gonvml.EventTypeGpuRecoveryAction:
		w.tell(gpu.EventTopologyChanged, "")
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
