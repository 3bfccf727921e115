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
	// restEvery is the time that a watch waits for an event if no change is expected. It then
	// checks for changes that NVML does not report. An event or the end of the watch ends the wait
	// at once. If NVML ignores the interrupt, against the promise of nvml.h, restEvery limits the
	// time that a claimer of the lease waits.
	restEvery = 30 * time.Second
	// asks is the number of GPUs that a watch asks in turn after each wait. On a node with 8 GPUs,
	// this makes 10 calls a minute including the waits, and asks each GPU once a minute.
	asks = 4
	// probeEvery is the first pause while the watch expects a change of GPUs that do not answer, or
	// that join their fabric. NVML does not report such a change. The pauses double up to two
	// thirds of restEvery, so that a GPU is used again soon after it answers.
	probeEvery = 2 * time.Second
	// maxFailures is the number of successive waits that may fail. The pause after the first
	// failure is a twentieth of probeEvery, and doubles with each one.
	maxFailures = 6
	// maxPending is the largest number of events that are taken from an old set.
	maxPending = 256
	// wantedEvents are registered if the GPU supports them. Uncorrectable memory errors also cause
	// XID 48, so their separate event is not needed.
	wantedEvents = gonvml.EventTypeXidCriticalError | gonvml.EventMigConfigChange | gonvml.EventTypeGpuRecoveryAction
)

// times holds the waiting times of a watch. Tests set shorter ones.
type times struct{ rest, probe time.Duration }

// soon returns the pauses while a change is expected.
func (t times) soon() pace.Backoff { return pace.Backoff{First: t.probe, Most: t.rest / 3 * 2} }

// watch is one Watch that is running.
type watch struct {
	view    *view
	times   times
	deliver func(gpu.Event)
	log     *slog.Logger

	// set is nil while no GPU has events.
	set  *nvml.EventSet
	gpus []*watched
	// fabrics is the number of changes of fabrics that were reported.
	fabrics int
	// soon has the pauses while a change is expected.
	soon pace.Backoff
	// probed is the time of the last check for changes that NVML does not report.
	probed time.Time
	// turn is the position of the next GPU to ask.
	turn int
	// stale is set after the watch has reported that the kernel has other GPUs than NVML.
	stale bool
}

// watched is a GPU of a watch.
type watched struct {
	index  int
	handle nvml.Device
	// events are the event types of the GPU that are registered in the current set.
	events uint64
	// silent is set if the GPU does not work. The GPU works again when it answers the call lostTo.
	silent bool
	lostTo func(nvml.Device) error
	// failed is set if the GPU works, but could not be registered. logged is set after this was
	// logged.
	failed, logged bool
	// mig is the known MIG state of a GPU that does not report MIG changes.
	mig migState
	// asked counts how often the GPU was asked in turn.
	asked int
}

// watchable reports whether calls for the GPU can succeed.
func (g *watched) watchable() bool { return !g.silent && g.handle.Valid() }

// run watches until ctx ends, and returns the cause of ctx, or why it cannot watch.
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
			// The set is unusable now. Leave the lost GPUs out of the next one.
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
		// Pause, in case the library does not wait. A wait that a signal to this process has ended
		// is repeated at once.
		pace.Pause(ctx, min(limit, w.times.probe))
	}
	return err
}

func (w *watch) event(e nvml.Event) {
	id, known := w.uuid(e.Device)
	if known && id == "" {
		// A GPU without a UUID is not advertised, and an event without a GPU would count against
		// all GPUs.
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

// uuid returns the GPU of an event, and whether it is registered. It also knows GPUs that have gone
// since then.
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

// id returns the UUID of a GPU, empty if it is not known. It reads the UUID if it was not read
// before.
func (w *watch) id(g *watched) gpu.UUID {
	if id := w.view.memory.uuid(g.index); id != "" || !g.handle.Valid() {
		return id
	}
	id, err := g.handle.UUID()
	if err != nil || !gpu.UUID(id).Valid() {
		return ""
	}
	w.view.memory.storeConstants(gpu.GPU{Index: g.index, Minor: noMinor, UUID: gpu.UUID(id)}, symUUID)
	return gpu.UUID(id)
}
