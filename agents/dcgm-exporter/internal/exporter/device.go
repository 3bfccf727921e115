package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/account"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/history"
	"outrigger.dev/agents/dcgm-exporter/internal/kernellog"
	"outrigger.dev/agents/dcgm-exporter/internal/processes"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/reconcile"
)

// device is the state of a GPU.
type device struct {
	gpu gpu.GPU
	// seen is the time of the last snapshot with the GPU.
	seen    time.Time
	worker  *worker
	sample  *telemetry.Sample
	err     error
	errors  map[string]uint64
	history history.GPU
	// lost is set if the snapshot no longer has the GPU, although the GPU is on the PCI bus.
	lost bool
}

// handleObservation handles a snapshot of the node, or the error that prevented it.
func (e *Exporter) handleObservation(ctx context.Context, obs observe.Observation[nothing, nothing]) {
	e.reportTrouble(obs)
	e.judge(ctx, obs)
	if obs.Node == nil {
		return
	}
	if e.node == nil {
		close(e.found)
	}
	e.node = obs.Node
	e.reportMissing()
	seen := map[gpu.UUID]bool{}
	for _, g := range obs.Node.GPUs {
		if !g.UUID.Valid() {
			continue
		}
		seen[g.UUID] = true
		e.addGPU(ctx, g, obs.At)
	}
	for id, d := range e.gpus {
		if seen[id] {
			continue
		}
		// A GPU that worked until now, or that is no longer on the bus, was removed on purpose.
		// Any other GPU is lost, and its metrics stay to show that.
		if d.worker != nil {
			d.worker.stop()
			d.worker = nil
		}
		if d.lost = (d.lost || d.failed()) && e.cfg.OnBus(d.gpu.PCI.BusID); !d.lost {
			delete(e.gpus, id)
		}
	}
	e.book.Retain(func(d account.Device) bool { return e.gpus[d.GPU] != nil })
	e.refreshUsers(ctx)
}

// reportMissing logs which devices the flag --devices names and the node does not have.
func (e *Exporter) reportMissing() {
	gpus, instances := e.current.Devices.Missing(e.node)
	text := fmt.Sprintf("gpus %v, gpu instances %v", gpus, instances)
	if text == e.missing {
		return
	}
	e.missing = text
	if len(gpus)+len(instances) > 0 {
		e.log.Warn("--devices names devices that this node does not have, they have no metrics", "gpus", gpus, "gpu_instances", instances, "gpus_of_node", len(e.node.GPUs))
	}
}

// reportTrouble logs when the driver stops answering, and when it answers again.
func (e *Exporter) reportTrouble(obs observe.Observation[nothing, nothing]) {
	switch changed := e.trouble.Set(obs.Err); {
	case changed && obs.Err == nil:
		e.log.Info("the driver answers", "version", obs.Node.Driver.Version, "gpus", len(obs.Node.GPUs))
	case errors.Is(obs.Err, gpu.ErrClosed):
		// A GPU was added or removed, and the driver is opened again.
		e.log.Debug("driver closed, waiting until it is opened again", "err", obs.Err)
	case changed:
		e.log.Warn("the driver does not answer, gpus have no readings until it does", "err", obs.Err)
	}
}

// failed reports whether the last reading failed, or the last XID was critical.
func (d *device) failed() bool {
	return d.err != nil || exposition.ClassOf(d.history.Last()) == exposition.XIDCritical
}

// addGPU adds or updates a GPU of the node.
func (e *Exporter) addGPU(ctx context.Context, g gpu.GPU, seen time.Time) {
	d := e.gpus[g.UUID]
	if d == nil {
		d = &device{errors: map[string]uint64{}}
		e.gpus[g.UUID] = d
	}
	if g.Fault != nil && d.gpu.Name != "" {
		// A faulty GPU might not report these values, so keep the previous ones.
		g.Name, g.PCI, g.MIG = d.gpu.Name, d.gpu.PCI, d.gpu.MIG
	}
	d.gpu, d.seen, d.lost = g, seen, false
	if d.worker == nil {
		e.start(ctx, d)
	} else {
		e.assign(d)
	}
}

// assign passes the current task to the worker of a GPU.
func (e *Exporter) assign(d *device) {
	if d.worker != nil {
		d.worker.assign(telemetry.Task{GPU: d.gpu, Seen: d.seen, Processes: e.shared(d)})
	}
}

// shared reports whether several containers share a GPU, or one of its GPU instances.
func (e *Exporter) shared(d *device) bool {
	if e.cfg.Pods == nil || e.cfg.Processes == nil {
		return false
	}
	users := e.cfg.Pods.Last()
	if len(users[d.gpu.UUID]) > 1 {
		return true
	}
	if d.gpu.MIG == nil {
		return false
	}
	count := map[uint32]int{}
	for _, m := range d.gpu.MIG.Devices {
		if count[m.GPUInstance] += len(users[m.UUID]); count[m.GPUInstance] > 1 {
			return true
		}
	}
	return false
}

// start starts the worker of a GPU.
func (e *Exporter) start(ctx context.Context, d *device) {
	ctx, stop := context.WithCancel(ctx)
	w := &worker{
		gpu: d.gpu.UUID, sampler: e.cfg.Sampler(d.gpu.UUID, e.current.Wanted()), interval: e.cfg.Interval, limit: e.limit(),
		report: e.readings, stop: stop,
	}
	w.loop = reconcile.New(reconcile.Config{Name: "gpu", Step: w.step, Log: e.log})
	if e.cfg.Processes != nil {
		w.resolver = processes.New(*e.cfg.Processes)
	}
	d.worker = w
	e.assign(d)
	go func() { _ = w.loop.Run(ctx) }() // its step returns no error
}

// limit returns how long a reading may take. A GPU that takes longer counts as not up.
func (e *Exporter) limit() time.Duration {
	return min(max(e.cfg.Interval, 2*time.Second), 10*time.Second)
}

// maxAge returns the maximum age of a served reading.
func (e *Exporter) maxAge() time.Duration { return 2*e.cfg.Interval + e.limit() }

// handleEvent handles an event of the driver.
func (e *Exporter) handleEvent(ev gpu.Event) {
	e.health.Apply(ev, time.Now())
	if health.NeedsRefresh(ev) {
		e.observer.Refresh()
	}
	if d := e.gpus[ev.GPU]; d != nil && ev.Kind == gpu.EventXID {
		d.history.XID(history.NVML, ev.XID, ev.GPUInstance, time.Now())
	}
}

// handleKernelLogXID handles an error from the kernel's log.
func (e *Exporter) handleKernelLogXID(x kernellog.XID) {
	for _, d := range e.gpus {
		if d.gpu.PCI.BusID == x.BusID {
			d.history.XID(history.KernelLog, x.Code, gpu.NoInstance, time.Now())
			e.health.Apply(gpu.Event{
				Kind: gpu.EventXID, GPU: d.gpu.UUID, XID: x.Code, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance,
			}, time.Now())
			e.observer.Refresh()
		}
	}
}

// handleReading handles the reading of a worker.
func (e *Exporter) handleReading(r reading) {
	d := e.gpus[r.worker.gpu]
	if d == nil || d.worker != r.worker {
		return
	}
	if r.err == nil {
		if d.err != nil {
			e.log.Info("gpu answers again", "gpu", d.gpu.UUID, "index", d.gpu.Index)
		}
		d.sample, d.err = &r.sample, nil
		if differs(d.gpu, &r.sample) {
			e.observer.Refresh()
		}
		for symbol, n := range r.sample.Failed {
			d.errors[symbol] += uint64(n) //nolint:gosec // a count
		}
		if bits, ok := r.sample.GPU[telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS]; ok {
			d.history.Clocks(uint64(bits), r.sample.At)
		}
		e.account(d, r)
		return
	}
	if nodeTrouble(r.err) {
		return // the observer reports the error
	}
	if d.err == nil {
		e.log.Warn("cannot read gpu, retrying", "gpu", d.gpu.UUID, "index", d.gpu.Index, "err", r.err)
	}
	d.err = r.err
}
