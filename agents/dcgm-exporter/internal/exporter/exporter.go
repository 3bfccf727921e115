// Package exporter reads the GPUs of the node in the background, and stores the metrics to serve.
// A scrape gets the stored metrics, and never waits for the driver, the kubelet or a disk.
//
// One goroutine owns the state. It blocks only on its inputs: the observer of the GPUs, a worker
// for each GPU, and the kubelet's answers.
package exporter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/dcgm-exporter/internal/account"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/jobs"
	"outrigger.dev/agents/dcgm-exporter/internal/kernellog"
	"outrigger.dev/agents/dcgm-exporter/internal/processes"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/record"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/reconcile"
)

// Config describes an Exporter.
type Config struct {
	Source gpu.Source
	// Sampler returns the Sampler of a GPU for its worker.
	Sampler func(id gpu.UUID, fields []telemetry.Field) Sampler
	// WatchDriver is observe.Config.WatchChanges.
	WatchDriver func(ctx context.Context, changed func()) error
	// OnBus reports whether a PCI device is on the bus, by its bus ID.
	OnBus   func(busID string) bool
	Options exposition.Options
	// Interval is the time between two readings of a GPU.
	Interval time.Duration
	// Host is the name of the node. It is the value of the label Hostname.
	Host string
	// Pods asks which containers use the GPUs. If it is nil, metrics have no labels of pods.
	Pods Pods
	// Labels returns additional labels for the metrics of a container. It may be nil.
	Labels func(podresources.User) []exposition.Label
	// WatchLog delivers the errors of GPUs that only the kernel's log has, until ctx ends. It may
	// be nil.
	WatchLog func(ctx context.Context, deliver func(kernellog.XID)) error
	// Incidents shares XIDs with the other agents of the node. It may be nil.
	Incidents *record.Record
	// Jobs reads the jobs of a batch system. It may be nil.
	Jobs func() jobs.Jobs
	// Processes configures how to find the pods of processes on a shared GPU. If it is nil, the
	// use of a shared GPU by each container is unknown.
	Processes *processes.Config
	Log       *slog.Logger
}

// Sampler reads a GPU. A call may block as long as the driver does. Calls do not overlap.
type Sampler interface {
	Sample(ctx context.Context, t telemetry.Task) (telemetry.Sample, error)
}

// Pods knows which containers use the GPUs.
type Pods interface {
	// Refresh asks again, for the devices of a node.
	Refresh(ctx context.Context, n *gpu.Node) error
	// Last returns the last answer, nil before the first.
	Last() podresources.Map
}

// nothing is an empty type for the observer, because this agent does not prepare GPUs.
type nothing struct{}

// Exporter keeps the metrics of the node's GPUs.
type Exporter struct {
	cfg      Config
	log      *slog.Logger
	observer *observe.Observer[nothing, nothing]
	options  pace.Latest[exposition.Options]
	rules    pace.Latest[health.Rules]
	forget   pace.Latest[struct{}]
	readings chan reading
	xids     chan kernellog.XID
	// found is closed after the GPUs have been read for the first time.
	found   chan struct{}
	answers pace.Latest[jobs.Jobs]
	ready   *reconcile.Status
	served  atomic.Pointer[Served]

	// The goroutine of Run owns the fields below.
	current exposition.Options
	node    *gpu.Node
	health  *health.Machine
	// rechecked is the time from health.Next that last caused a refresh.
	rechecked time.Time
	trouble   reconcile.Status
	gpus      map[gpu.UUID]*device
	jobs      jobs.Jobs
	book      account.Book
	// missing describes the devices that were last reported as missing.
	missing string
	// seesProcesses is set once the container of a process on a GPU has been found.
	seesProcesses bool
}

// New returns an Exporter. It does nothing before Run.
func New(cfg Config) *Exporter {
	e := &Exporter{
		cfg: cfg, log: cfg.Log, current: cfg.Options,
		observer: observe.New(observe.Config[nothing, nothing]{
			Source: cfg.Source, Preparer: observe.Unprepared[nothing, nothing]{}, WatchChanges: cfg.WatchDriver, Log: cfg.Log,
		}),
		options:  pace.NewLatest[exposition.Options](),
		rules:    pace.NewLatest[health.Rules](),
		forget:   pace.NewLatest[struct{}](),
		readings: make(chan reading),
		xids:     make(chan kernellog.XID),
		found:    make(chan struct{}),
		answers:  pace.NewLatest[jobs.Jobs](),
		ready:    reconcile.NewStatus(errStarting),
		gpus:     map[gpu.UUID]*device{},
		health:   health.New(health.Rules{}),
	}
	e.served.Store(&Served{})
	return e
}

var (
	errStarting = errors.New("start: the GPUs have not been read yet")
	errSilent   = errors.New("no GPU answers: see the log, and gpu_up of each GPU")
)

// Ready returns nil once there are metrics, and otherwise the reason.
func (e *Exporter) Ready() error { return e.ready.Err() }

// Configure sets the options that select the served metrics. It does not block.
func (e *Exporter) Configure(o exposition.Options) { e.options.Put(o) }

// SetRules sets the rules for the health of GPUs. It does not block.
func (e *Exporter) SetRules(r health.Rules) { e.rules.Put(r) }

// Reload reads the node again, and forgets the events that made GPUs unhealthy. It does not block.
func (e *Exporter) Reload() {
	e.forget.Put(struct{}{})
	e.observer.Reload()
}

// Run keeps the metrics up to date until ctx ends.
func (e *Exporter) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.observer.Run(ctx) })
	if e.cfg.WatchLog != nil {
		g.Go(func() error { return e.watchLog(ctx) })
	}
	g.Go(func() error { return e.cfg.Incidents.Run(ctx) })
	g.Go(func() error { return e.loop(ctx) })
	return g.Wait()
}

// logRetry is the retry interval after the kernel's log could not be read.
const logRetry = time.Minute

// watchLog delivers errors from the kernel's log to the loop, until ctx ends. It begins after the
// first GPUs were found: on a node without a driver, only the missing driver is reported.
func (e *Exporter) watchLog(ctx context.Context) error {
	select {
	case <-e.found:
	case <-ctx.Done():
		return nil
	}
	deliver := func(x kernellog.XID) {
		select {
		case e.xids <- x:
		case <-ctx.Done():
		}
	}
	return reconcile.New(reconcile.Config{
		Name: "kernel log", Log: e.log, Retry: pace.Backoff{First: logRetry, Most: logRetry},
		Step: func(ctx context.Context) (reconcile.Result, error) {
			return reconcile.Result{}, e.cfg.WatchLog(ctx, deliver)
		},
		Failed: func(err error, in time.Duration) {
			e.log.Warn("cannot read the kernel's log, not counting the xids 79, 119 and 120, retrying", "in", in, "err", err)
		},
	}).Run(ctx)
}

// publishDelay is how long readings are collected before the metrics are derived again. The
// workers of a node finish at about the same time.
const publishDelay = 20 * time.Millisecond

func (e *Exporter) loop(ctx context.Context) error {
	publish := time.NewTimer(time.Hour)
	publish.Stop()
	// Without readings, metrics still have to be published, because they become stale.
	tick := time.NewTimer(publishDelay)
	defer tick.Stop()
	pending := false
	for {
		e.cfg.Incidents.Save(e.health)
		select {
		case <-ctx.Done():
			return nil
		case obs := <-e.observer.Observations():
			e.handleObservation(ctx, obs)
		case ev := <-e.observer.Events():
			e.handleEvent(ev)
		case <-e.observer.Hangs(): //nolint:errcheck // the workers notice hangs of each GPU
		case o := <-e.options:
			e.configure(ctx, o)
		case r := <-e.rules:
			e.health.SetRules(r)
		case <-e.forget:
			e.health.Reset()
		case x := <-e.xids:
			e.handleKernelLogXID(x)
		case r := <-e.readings:
			e.handleReading(r)
		case e.jobs = <-e.answers:
			for _, d := range e.gpus {
				e.assign(d)
			}
		case <-tick.C:
			tick.Reset(e.cfg.Interval)
			e.recheck(time.Now())
			e.refreshUsers(ctx)
		case <-publish.C:
			pending = false
			e.publish()
			continue
		}
		if !pending {
			pending = true
			publish.Reset(publishDelay)
		}
	}
}

// configure applies new options. It restarts the workers if the fields to read change.
func (e *Exporter) configure(ctx context.Context, o exposition.Options) {
	same := slices.Equal(e.current.Wanted(), o.Wanted())
	e.current = o
	if same {
		return
	}
	for _, d := range e.gpus {
		if d.worker != nil {
			d.worker.stop()
			e.start(ctx, d)
		}
	}
}

// refreshUsers asks in the background which containers and jobs use the GPUs. Pods stores the
// containers.
func (e *Exporter) refreshUsers(ctx context.Context) {
	if e.cfg.Pods == nil && e.cfg.Jobs == nil || e.node == nil {
		return
	}
	node := e.node
	go func() {
		var found jobs.Jobs
		if e.cfg.Pods != nil {
			_ = e.cfg.Pods.Refresh(ctx, node) // Refresh counts and logs its failures, and keeps the last answer
		}
		if e.cfg.Jobs != nil {
			found = e.cfg.Jobs()
		}
		e.answers.Put(found)
	}()
}
