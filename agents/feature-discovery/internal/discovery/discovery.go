// Package discovery derives the labels of the node and the condition GPUReady, with pure
// packages, from snapshots of the GPUs, the facts of the other agents and the config. It passes
// the desired state to Config.Publish.
//
// One goroutine owns the state, and blocks only on its inputs.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/record"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/reconcile"
)

// Machine is the state of the machine that can be read without a driver.
type Machine struct {
	// Product is the name of the machine.
	Product string
	// PCI has NVIDIA's devices on the bus. Unknown is set if the bus could not be read.
	PCI     []pci.Device
	Unknown bool
}

// hasDrivenGPU reports whether the bus has a GPU that is bound to NVIDIA's driver.
func (m Machine) hasDrivenGPU() bool {
	return slices.ContainsFunc(m.PCI, func(d pci.Device) bool { return d.GPU() && d.Driver == "nvidia" })
}

// mayHaveGPU reports whether the bus has a GPU, or could not be read.
func (m Machine) mayHaveGPU() bool {
	return m.Unknown || slices.ContainsFunc(m.PCI, pci.Device.GPU)
}

// Config describes a Discovery.
type Config struct {
	Config config.Config
	Source gpu.Source
	// WatchDriver is observe.Config.WatchChanges.
	WatchDriver func(ctx context.Context, changed func()) error
	// ReadMachine returns the state of the machine.
	ReadMachine func() Machine
	// WatchFacts delivers the facts of the node's agents, at the start and whenever
	// they change, until ctx ends.
	WatchFacts func(ctx context.Context, deliver func(map[contract.Name]contract.Fact)) error
	// WatchNode delivers the Node, at the start and whenever it changes, until ctx ends. It is nil
	// if there is no Node.
	WatchNode func(ctx context.Context, deliver func(ready.Node)) error
	// Chain has the links that must hold for the GPUs to be ready. If it is empty, no condition is
	// published.
	Chain []ready.Link
	// Incidents shares XIDs with the other agents of the node. It may be nil.
	Incidents *record.Record
	// Publish sets the desired state. It must not block.
	Publish func(nodestate.Desired)
	// Recorder records the desired state and config changes. It must not block.
	Recorder Recorder
	Log      *slog.Logger
}

// Recorder records the desired state and the results of config changes.
type Recorder interface {
	// Desired records the desired state.
	Desired(nodestate.Desired)
	// Configured records that a config was accepted, or the error if it was rejected.
	Configured(err error)
}

// nothing is an empty type for the observer, because this agent does not prepare GPUs.
type nothing struct{}

// Discovery derives the desired state of the node.
type Discovery struct {
	cfg      Config
	log      *slog.Logger
	observer *observe.Observer[nothing, nothing]
	reload   chan struct{}
	configs  pace.Latest[config.Config]
	facts    pace.Latest[map[contract.Name]contract.Fact]
	nodes    pace.Latest[ready.Node]
	unknown  *reconcile.Status

	// The goroutine of Run owns the fields below.
	config  config.Config
	machine Machine
	health  *health.Machine
	// rechecked is the time from health.Next that last caused a refresh.
	rechecked time.Time
	// node is the last snapshot, nil before the first. withGPUs is the last snapshot that
	// shows the GPUs of the node. A snapshot without GPUs does not count while the bus has GPUs
	// that are bound to the driver, because then the driver failed to start them.
	node, withGPUs *gpu.Node
	// trouble is the error of the last snapshot, and hang is set while the driver hangs.
	trouble    reconcile.Status
	hang       error
	refreshed  bool
	knownFacts map[contract.Name]contract.Fact
	// cluster is the Node, nil before it is known.
	cluster *ready.Node
	desired nodestate.Desired
}

// New returns a Discovery. It does nothing before Run.
func New(cfg Config) *Discovery {
	return &Discovery{
		cfg: cfg,
		log: cfg.Log,
		observer: observe.New(observe.Config[nothing, nothing]{
			Source: cfg.Source, Preparer: observe.Unprepared[nothing, nothing]{}, WatchChanges: cfg.WatchDriver, Log: cfg.Log,
		}),
		reload:  make(chan struct{}, 1),
		configs: pace.NewLatest[config.Config](),
		facts:   pace.NewLatest[map[contract.Name]contract.Fact](),
		nodes:   pace.NewLatest[ready.Node](),
		unknown: reconcile.NewStatus(errStarting),
		config:  cfg.Config,
		health:  health.New(rules(cfg.Config)),
	}
}

// rules returns the health rules of a config. It ignores items of the XID lists that have no effect,
// because the device plugin reports them.
func rules(c config.Config) health.Rules {
	r, _ := c.Rules()
	return r
}

// Configure makes c the config in effect. It does not block.
func (d *Discovery) Configure(c config.Config) {
	d.cfg.Recorder.Configured(nil)
	d.configs.Put(c)
}

// Reject records that a newer config cannot be used. The last config stays in effect.
func (d *Discovery) Reject(err error) {
	d.cfg.Recorder.Configured(err)
	d.log.Error("new config rejected, keeping the previous one", "err", err)
}

// Reload reads the node again, and forgets the events that made GPUs unhealthy. It does not
// block.
func (d *Discovery) Reload() { pace.Signal(d.reload) }

// onceLimit is the limit for Once, so that a job fails if the driver hangs.
const onceLimit = time.Minute

// Once reads the node once, and returns its labels. It takes a minute at most.
func (d *Discovery) Once(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	n, err := d.cfg.Source.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the GPUs of the node: %w", err)
	}
	d.refreshed, d.machine = true, d.cfg.ReadMachine()
	d.record(n)
	labels := d.labels()
	if labels == nil {
		return nil, d.whyUnknown()
	}
	return labels, nil
}

// Unknown returns why the labels of the node are unknown, or nil once they are known.
func (d *Discovery) Unknown() error { return d.unknown.Err() }

var errStarting = errors.New("start: the node has not been read yet")

// Run keeps the desired state up to date until ctx ends.
func (d *Discovery) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.observer.Run(ctx) })
	if len(d.cfg.Chain) > 0 {
		g.Go(func() error { return d.cfg.WatchFacts(ctx, d.facts.Put) })
	}
	if d.asksNode() {
		g.Go(func() error { return d.cfg.WatchNode(ctx, d.nodes.Put) })
	}
	g.Go(func() error { return d.cfg.Incidents.Run(ctx) })
	g.Go(func() error { return d.loop(ctx) })
	return g.Wait()
}

// asksNode reports whether a link depends on the Node.
func (d *Discovery) asksNode() bool {
	depends := func(l ready.Link) bool { return l == ready.MIG || l == ready.Toolkit || l == ready.Plugin }
	return d.cfg.WatchNode != nil && slices.ContainsFunc(d.cfg.Chain, depends)
}

func (d *Discovery) loop(ctx context.Context) error {
	// recheck fires when a GPU may have become healthy without an event.
	recheck := time.NewTimer(0)
	recheck.Stop()
	defer recheck.Stop()
	for {
		d.cfg.Incidents.Save(d.health)
		if at, ok := d.health.Next(); ok && !at.Equal(d.rechecked) {
			recheck.Reset(time.Until(at))
		} else {
			recheck.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case obs := <-d.observer.Observations():
			if err := d.handleObservation(ctx, obs); err != nil {
				return err
			}
		case ev := <-d.observer.Events():
			d.health.Apply(ev, time.Now())
			if health.NeedsRefresh(ev) {
				d.observer.Refresh()
				continue
			}
		case <-recheck.C:
			d.rechecked, _ = d.health.Next()
			d.observer.Refresh()
			continue
		case err := <-d.observer.Hangs():
			d.handleHang(err)
		case <-d.reload:
			d.log.Info("reloading")
			d.health.Reset()
			d.observer.Reload()
			continue
		case d.config = <-d.configs:
			d.log.Info("config has changed")
			d.health.SetRules(rules(d.config))
		case d.knownFacts = <-d.facts:
		case n := <-d.nodes:
			d.cluster = &n
		}
		d.publish()
	}
}

func (d *Discovery) handleObservation(ctx context.Context, obs observe.Observation[nothing, nothing]) error {
	if obs.Err != nil && d.cfg.Config.FailOnInitError && !d.refreshed {
		return fmt.Errorf("%w (fail-on-init-error is set)", obs.Err)
	}
	d.refreshed, d.machine = true, d.cfg.ReadMachine()
	switch {
	case errors.Is(obs.Err, gpu.ErrNoDriver):
		d.health.DriverGone(obs.Err.Error())
	case obs.Node != nil:
		d.record(obs.Node)
		d.cfg.Incidents.Restore(ctx, d.health, obs.Node)
		d.health.Observe(obs.Node, obs.At)
	}
	switch changed := d.trouble.Set(obs.Err); {
	case changed && obs.Err == nil:
		d.log.Info("the driver answers", "version", obs.Node.Driver.Version, "gpus", len(obs.Node.GPUs))
	case errors.Is(obs.Err, gpu.ErrClosed):
		// A GPU was added or removed, and the driver is opened again.
		d.log.Debug("driver closed, waiting until it is opened again", "err", obs.Err)
	case changed:
		d.log.Warn("the driver does not answer, waiting", "err", obs.Err)
	}
	return nil
}

// record records a snapshot.
func (d *Discovery) record(n *gpu.Node) {
	d.node = n
	if len(n.GPUs) > 0 || !d.machine.hasDrivenGPU() {
		d.withGPUs = n
	}
}

func (d *Discovery) handleHang(err error) {
	d.hang = err
	if err != nil {
		d.log.Error("the driver hangs, no gpu can be used", "err", err)
	} else {
		d.log.Info("the driver answers again")
	}
}
