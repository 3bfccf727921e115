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
	restEvery = 30 * time.Second
	// asks is how many GPUs a watch at rest asks after each wait, in turn. On a node
	// with 8 GPUs that makes 10 calls a minute with the waits, and each GPU is asked
	// once a minute.
	asks = 4
	// probeEvery is the first pause while there is something to wait for that NVML
	// does not report: GPUs that do not answer, or that join their fabric. The pauses
	// double up to two thirds of restEvery: a GPU works again soon after it answers.
	probeEvery = 2 * time.Second
	// maxFailures is how many waits in a row may fail. The pause after the first one is a
	// twentieth of probeEvery; it doubles.
	maxFailures = 6
	// maxPending bounds how many events are taken from a set that is given up.
	maxPending = 256
	// wantedEvents are registered where a GPU supports them. Uncorrectable
	// memory errors come as XID 48 too, so their own event is not needed.
	wantedEvents = gonvml.EventTypeXidCriticalError | gonvml.EventMigConfigChange | gonvml.EventTypeGpuRecoveryAction
)

// times are how long a watch waits: restEvery and probeEvery, less in tests.
type times struct{ rest, probe time.Duration }

// soon returns the pauses while something is expected.
func (t times) soon() pace.Backoff { return pace.Backoff{First: t.probe, Most: t.rest / 3 * 2} }

// watch is one Watch that is running.
type watch struct {
	view    *view
	times   times
	deliver func(gpu.Event)
	log     *slog.Logger

	// set is nil while no GPU gives events.
	set  *nvml.EventSet
	gpus []*watched
	// fabrics is the count of changes of fabrics that was reported.
	fabrics int
	// soon are the pauses while something is expected.
	soon pace.Backoff
	// probed is when the watch last checked what NVML does not report.
	probed time.Time
	// turn is the GPU that is asked next.
	turn int
	// stale is set once it was reported that the kernel has other GPUs than NVML.
	stale bool
}

// watched is a GPU of a watch.
type watched struct {
	index  int
	handle nvml.Device
	// events is what is registered for the GPU in the current set.
	events uint64
	// silent GPUs do not work. They work again when they answer lostTo.
	silent bool
	lostTo func(nvml.Device) error
	// failed is set for a GPU that works, but failed to be registered. logged is set
	// once that was logged.
	failed, logged bool
	// mig is what is known of the MIG state of a GPU that does not report its
	// changes.
	mig migState
	// asked counts how often the GPU was asked in its turn.
	asked int
}

// watchable reports whether calls for the GPU can succeed.
func (g *watched) watchable() bool { return !g.silent && g.handle.Valid() }

// run watches until ctx ends, and returns its cause, or why it cannot watch.
func (w *watch) run(ctx context.Context) error {
	count, err := w.view.deviceCount()
	if err != nil {
		return err
	}
	w.soon = w.times.soon()
	for i := range count {
		w.gpus = append(w.gpus, &watched{index: i})
	}
	if err := w.register(); err != nil {
		return err
	}
	if w.hasNoEvents() {
		w.log.Info("no gpu of this node reports xids, checking the gpus periodically")
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
			pace.Pause(ctx, w.times.probe/20<<failures)
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
	limit := w.times.rest
	if w.expecting() {
		limit = w.soon.Next()
	} else {
		w.soon.Reset()
	}
	if w.set == nil {
		pace.Pause(ctx, limit)
		return nil
	}
	start := time.Now()
	event, err := w.set.Wait(limit)
	switch {
	case err == nil:
		w.event(event)
	case nvml.Code(err) == gonvml.ERROR_TIMEOUT && time.Since(start) < min(limit, w.times.probe)/20:
		// A library that does not wait is not asked all the time. A wait that a signal
		// to this process has ended begins again at once.
		pace.Pause(ctx, min(limit, w.times.probe))
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
// That of a GPU which is gone is known from before.
func (w *watch) uuid(h nvml.Device) (id gpu.UUID, known bool) {
	for _, g := range w.gpus {
		if g.handle.Is(h) {
			return w.id(g), true
		}
	}
	text, err := h.UUID()
	if id = gpu.UUID(text); err != nil || !id.Valid() {
		w.log.Warn("nvml event of an unknown gpu", "uuid", text, "err", err)
		return "", false
	}
	return id, false
}

// id returns the UUID of a GPU, empty if it is not known. It asks for it if nobody has
// done so.
func (w *watch) id(g *watched) gpu.UUID {
	if id := w.view.memory.uuid(g.index); id != "" || !g.handle.Valid() {
		return id
	}
	seen := gpu.GPU{Index: g.index, Minor: noMinor}
	if err := readUUID(g.handle, &seen); err != nil || !seen.UUID.Valid() {
		return ""
	}
	w.view.memory.storeConstants(seen, symUUID)
	return seen.UUID
}
