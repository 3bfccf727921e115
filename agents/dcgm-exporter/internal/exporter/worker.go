package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/processes"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/reconcile"
)

// worker reads one GPU again and again. Each GPU has its own, so that one that hangs holds
// up no other.
type worker struct {
	gpu     gpu.UUID
	sampler Sampler
	// interval is the time between two readings, and limit how long one may take.
	interval, limit time.Duration
	report          chan<- reading
	// resolver is nil if nothing is known of processes.
	resolver *processes.Resolver
	stop     context.CancelFunc
	loop     *reconcile.Loop
	task     atomic.Pointer[telemetry.Task]
}

// reading is what a worker reports.
type reading struct {
	worker *worker
	sample telemetry.Sample
	// owners has the processes of the sample whose pods are known, by PID.
	owners map[int]processes.Process
	err    error
}

// errSlow is reported for a GPU that does not answer in time.
var errSlow = errors.New("the GPU has not answered in time")

// soon is the time until the next reading after one that begins to measure something.
const begunInterval = time.Second

// assign changes what the worker reads. It reads at once if the GPU is faulty or divided anew.
func (w *worker) assign(t telemetry.Task) {
	if was := w.task.Swap(&t); was != nil && (t.GPU.Fault != nil || !sameInstances(was.GPU, t.GPU)) {
		w.loop.Wake()
	}
}

// step makes a reading, and reports it. The next one is due at the next interval, or soon.
func (w *worker) step(ctx context.Context) (reconcile.Result, error) {
	done, task := make(chan reading, 1), *w.task.Load()
	go func() { done <- w.read(ctx, task) }()
	if w.reportReading(ctx, done) {
		return reconcile.Result{After: min(w.interval, begunInterval)}, nil
	}
	return reconcile.Result{After: w.interval}, nil
}

// read reads the GPU once, and whose its processes are.
func (w *worker) read(ctx context.Context, t telemetry.Task) reading {
	t.Processes = t.Processes && w.resolver != nil
	sample, err := w.sampler.Sample(ctx, t)
	r := reading{worker: w, sample: sample, err: err}
	if len(sample.Processes) > 0 {
		pids := make([]int, len(sample.Processes))
		for i, p := range sample.Processes {
			pids[i] = int(p.PID)
		}
		r.owners, _ = w.resolver.Resolve(pids) // without an owner, a process is nobody's
	}
	return r
}

// await reports a reading when it ends, and that it failed if it takes longer than limit. It returns
// whether the reading begins to measure something.
func (w *worker) reportReading(ctx context.Context, done <-chan reading) (begun bool) {
	late := time.NewTimer(w.limit)
	defer late.Stop()
	for {
		var r reading
		select {
		case <-ctx.Done():
			return false
		case r = <-done:
			done = nil
		case <-late.C:
			r = reading{worker: w, err: fmt.Errorf("%w (%s)", errSlow, w.limit)}
		}
		select {
		case w.report <- r:
		case <-ctx.Done():
			return false
		}
		if done == nil {
			return r.sample.Begun
		}
	}
}

// sameInstances reports whether a GPU is divided as before.
func sameInstances(a, b gpu.GPU) bool {
	if a.MIG == nil || b.MIG == nil {
		return a.MIG == b.MIG
	}
	same := func(x, y gpu.MIGDevice) bool { return x.UUID == y.UUID }
	return a.MIG.Enabled == b.MIG.Enabled && len(a.MIG.GPUInstances) == len(b.MIG.GPUInstances) && slices.EqualFunc(a.MIG.Devices, b.MIG.Devices, same)
}

// nodeTrouble reports whether an error concerns the driver of the node, not the GPU.
func nodeTrouble(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrNoDriver) || errors.Is(err, gpu.ErrClosed) ||
		errors.Is(err, context.Canceled)
}
