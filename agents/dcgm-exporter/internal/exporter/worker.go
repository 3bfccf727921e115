package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/processes"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/pace"
)

// worker reads one GPU again and again. Each GPU has its own, so that one that hangs holds
// up no other.
type worker struct {
	gpu     gpu.UUID
	current pace.Latest[telemetry.Task]
	stop    context.CancelFunc
	// resolver is nil if nothing is known of processes.
	resolver *processes.Resolver
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
const soon = time.Second

// run reads the GPU at once and then at each interval, or soon, until ctx ends. A reading that
// takes longer than limit is reported as failed; the next one begins when it has ended.
func (w *worker) run(ctx context.Context, sampler Sampler, interval, limit time.Duration, report chan<- reading) {
	var now telemetry.Task
	select {
	case now = <-w.current:
	case <-ctx.Done():
		return
	}
	for {
		done := make(chan reading, 1)
		go func() { done <- w.read(ctx, sampler, now) }()
		begun, ok := w.await(ctx, done, limit, report)
		if !ok {
			return
		}
		pause := interval
		if begun {
			pause = min(pause, soon)
		}
		next := time.NewTimer(pause)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case changed := <-w.current:
				waiting = changed.GPU.Fault == nil && sameInstances(now.GPU, changed.GPU)
				now = changed
			case <-next.C:
				waiting = false
			}
		}
		next.Stop()
	}
}

// read reads the GPU once, and whose its processes are.
func (w *worker) read(ctx context.Context, sampler Sampler, t telemetry.Task) reading {
	t.Processes = t.Processes && w.resolver != nil
	sample, err := sampler.Sample(ctx, t)
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

// await reports a reading when it ends, and that it is late if it takes longer than limit. It returns
// whether the reading begins to measure something, and false if ctx has ended.
func (w *worker) await(ctx context.Context, done <-chan reading, limit time.Duration, report chan<- reading) (begun, ok bool) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		var r reading
		select {
		case <-ctx.Done():
			return false, false
		case r = <-done:
			done = nil
		case <-late.C:
			r = reading{worker: w, err: fmt.Errorf("%w (%s)", errSlow, limit)}
		}
		select {
		case report <- r:
		case <-ctx.Done():
			return false, false
		}
		if done == nil {
			return r.sample.Begun, true
		}
	}
}

// sameInstances reports whether a GPU is divided as before.
func sameInstances(a, b gpu.GPU) bool {
	if (a.MIG == nil) != (b.MIG == nil) {
		return false
	}
	if a.MIG == nil {
		return true
	}
	if a.MIG.Enabled != b.MIG.Enabled || len(a.MIG.Devices) != len(b.MIG.Devices) || len(a.MIG.GPUInstances) != len(b.MIG.GPUInstances) {
		return false
	}
	for i := range a.MIG.Devices {
		if a.MIG.Devices[i].UUID != b.MIG.Devices[i].UUID {
			return false
		}
	}
	return true
}

// nodeTrouble reports whether an error concerns the driver of the node, not the GPU.
func nodeTrouble(err error) bool {
	return errors.Is(err, contract.ErrClaimed) || errors.Is(err, gpu.ErrNoDriver) || errors.Is(err, gpu.ErrClosed) ||
		errors.Is(err, context.Canceled)
}
