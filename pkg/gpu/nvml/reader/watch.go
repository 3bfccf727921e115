package reader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/pace"
)

const (
	// restEvery is how long a watch waits for an event at rest. After it the
	// watch checks what NVML does not report. An event, or the end of the watch,
	// ends the wait at once; where NVML ignores the interrupt (nvml.h promises
	// that it does not) it bounds how long a claimer of the lease waits for NVML.
	restEvery = 10 * time.Second
	// probeEvery is restEvery while there is something to wait for that NVML does
	// not report: GPUs that do not answer, or that join their fabric.
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

// times are how long a watch waits: restEvery and probeEvery, less in tests.
type times struct{ rest, probe time.Duration }

// watch is one Watch that is running.
type watch struct {
	view    *view
	times   times
	deliver func(gpu.Event)
	log     *slog.Logger

	// set is nil until there are GPUs to watch.
	set  *nvml.EventSet
	gpus []*watched
	// fabrics is the count of changes of fabrics that was reported.
	fabrics int
	// probed is when the watch last checked what NVML does not report.
	probed time.Time
	// turn counts the checks of MIG modes.
	turn int
	// stale is set once it was reported that the kernel has other GPUs than NVML.
	stale bool
}

// watched is a GPU of a watch.
type watched struct {
	index  int
	handle nvml.Device
	id     gpu.UUID
	// events is what is registered for the GPU in the current set.
	events uint64
	// silent GPUs do not answer.
	silent bool
	// refused is set for a GPU that answers, but failed to be registered.
	refused bool
	// mig is what is known of the MIG state of a GPU that does not report its
	// changes.
	mig migState
}

// deaf reports whether the GPU answers, and gives no events.
func (g *watched) deaf() bool { return !g.silent && g.events == 0 }

// run watches until ctx ends, and returns its cause, or why it cannot watch.
func (w *watch) run(ctx context.Context) error {
	count, err := w.view.span.Library().DeviceCount()
	if err != nil {
		return err
	}
	for i := range count {
		w.gpus = append(w.gpus, &watched{index: i})
	}
	if err := w.register(); err != nil {
		return err
	}
	w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	for failures := 0; ; {
		err := w.next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		code := nvml.Code(err)
		switch {
		case err == nil || code == gonvml.ERROR_TIMEOUT:
			failures = 0
		case concernsNode(err):
			return err
		case (code == gonvml.ERROR_GPU_IS_LOST || code == gonvml.ERROR_RESET_REQUIRED) && failures == 0:
			// The set is of no use any more: leave the lost ones out.
			failures++
			w.findSilent()
			if err := w.register(); err != nil {
				return err
			}
		case failures == maxFailures:
			return fmt.Errorf("%d waits in a row failed: %w", failures, err)
		default:
			w.log.Debug("nvml event wait failed, trying again", "failures", failures, "err", err)
			pace.Pause(ctx, backOff<<failures)
			failures++
			w.findSilent()
		}
		if err := w.probe(); err != nil {
			return err
		}
	}
}

// next waits for one event and delivers it.
func (w *watch) next(ctx context.Context) error {
	if w.set == nil {
		pace.Pause(ctx, w.times.probe)
		return nil
	}
	limit := w.times.rest
	if w.expecting() {
		limit = w.times.probe
	}
	event, err := w.set.Wait(limit)
	if err == nil {
		w.event(event)
	}
	return err
}

func (w *watch) event(e nvml.Event) {
	id, known := w.uuid(e.Device)
	if known && id == "" {
		// Without a name it is advertised to nobody; an event without a GPU would
		// count against all the others.
		w.log.Warn("ignoring nvml event of a gpu without uuid", "type", e.EventType, "data", e.EventData.EventData)
		return
	}
	switch e.EventType {
	case gonvml.EventTypeXidCriticalError:
		w.deliver(gpu.Event{
			Kind: gpu.EventXID, GPU: id, XID: e.EventData.EventData,
			GPUInstance: e.GpuInstanceId, ComputeInstance: e.ComputeInstanceId,
		})
		w.findSilentOf(e.Device)
	case gonvml.EventMigConfigChange:
		w.deliver(gpu.GPUEvent(gpu.EventMIGChanged, id))
	case gonvml.EventTypeGpuRecoveryAction:
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
}

// uuid returns the GPU of an event, and whether it is one that was registered.
// That of a GPU which is gone is known from when it was registered.
func (w *watch) uuid(h nvml.Device) (id gpu.UUID, known bool) {
	for _, g := range w.gpus {
		if g.handle.Is(h) {
			return g.id, true
		}
	}
	text, err := h.UUID()
	if id = gpu.UUID(text); err != nil || !id.Valid() {
		w.log.Warn("nvml event of an unknown gpu", "uuid", text, "err", err)
		return "", false
	}
	return id, false
}
