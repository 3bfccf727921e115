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

// worker reads one GPU periodically. Each GPU has its own worker, so that a GPU that hangs does
// not delay the others.
type worker struct {
	gpu     gpu.UUID
	sampler Sampler
	// interval is the time between two readings, and limit is how long one may take.
	interval, limit time.Duration
	report          chan<- reading
	// resolver is nil if processes are not assigned to containers.
	resolver *processes.Resolver
	stop     context.CancelFunc
	loop     *reconcile.Loop
	task     atomic.Pointer[telemetry.Task]
}

// reading is the result of one reading by a worker.
type reading struct {
	worker *worker
	sample telemetry.Sample
	// owners has the pod and container of each process in the sample, by PID. Processes
	// whose owner cannot be read are missing.
	owners map[int]processes.Process
	err    error
}

// errSlow is reported for a GPU that does not answer in time.
var errSlow = errors.New("the GPU has not answered in time")

// begunInterval is the time until the next reading after a reading that begins a measurement.
const begunInterval = time.Second

// assign sets the task of the worker. The worker reads at once if the GPU is faulty or its MIG
// devices have changed.
func (w *worker) assign(t telemetry.Task) {
	if was := w.task.Swap(&t); was != nil && (t.GPU.Fault != nil || !sameInstances(was.GPU, t.GPU)) {
		w.loop.Wake()
	}
}

// step makes a reading, and reports it. The next reading follows after interval, or after
// begunInterval if that is shorter and a measurement has begun.
func (w *worker) step(ctx context.Context) (reconcile.Result, error) {
	done, task := make(chan reading, 1), *w.task.Load()
	go func() { done <- w.read(ctx, task) }()
	if w.reportReading(ctx, done) {
		return reconcile.Result{After: min(w.interval, begunInterval)}, nil
	}
	return reconcile.Result{After: w.interval}, nil
}

// read reads the GPU once, and finds the containers of its processes.
func (w *worker) read(ctx context.Context, t telemetry.Task) reading {
	t.Processes = t.Processes && w.resolver != nil
	sample, err := w.sampler.Sample(ctx, t)
	r := reading{worker: w, sample: sample, err: err}
	if len(sample.Processes) > 0 {
		pids := make([]int, len(sample.Processes))
		for i, p := range sample.Processes {
			pids[i] = int(p.PID)
		}
		r.owners, _ = w.resolver.Resolve(pids) // a process without an owner is not counted
	}
	return r
}

// reportReading reports a reading when it ends. If the reading takes longer than limit, it first
// reports an error. It returns whether the reading begins a measurement.
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

// sameInstances reports whether a and b have the same MIG devices.
func sameInstances(a, b gpu.GPU) bool {
	if a.MIG == nil || b.MIG == nil {
		return a.MIG == b.MIG
	}
	same := func(x, y gpu.MIGDevice) bool { return x.UUID == y.UUID }
	return a.MIG.Enabled == b.MIG.Enabled && len(a.MIG.GPUInstances) == len(b.MIG.GPUInstances) && slices.EqualFunc(a.MIG.Devices, b.MIG.Devices, same)
}

// nodeTrouble reports whether an error concerns the node's driver and not one GPU.
func nodeTrouble(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrNoDriver) || errors.Is(err, gpu.ErrClosed) ||
		errors.Is(err, context.Canceled)
}
