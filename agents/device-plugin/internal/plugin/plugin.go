// Package plugin is the device plugin's loop: it takes observations of the
// node and events in, derives resources and health from them with pure
// packages, and publishes the result to one server for each resource.
//
// One goroutine owns the state; it waits for nothing but its inputs.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/agents/device-plugin/internal/resource"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/gpu"
)

// Recorder takes note of what the plugin offers and does.
type Recorder interface {
	server.Recorder
	Offered(resource.Set)
	Event(gpu.Event)
	// Waiting notes why nothing is offered, with an empty reason that it is.
	Waiting(reason string)
	// Configured notes that a config was taken, or why it was not.
	Configured(err error)
}

// Marker tells the node whether the plugin's output is there. It must not
// block for long.
type Marker interface {
	Ready(*gpu.Node) error
	NotReady() error
}

// Config says what a Plugin works with.
type Config struct {
	Config config.Config
	Rules  health.Rules
	Source gpu.Source
	// Preparer makes what must be there before the GPUs of a node are offered.
	Preparer Preparer
	// WatchChanges calls changed once at first, and then for each change on
	// the node after which a driver that did not answer, or a Preparer that
	// failed, is worth another try. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	// WatchSockets calls changed for each change in the kubelet's folder of
	// sockets. It returns when ctx ends.
	WatchSockets func(ctx context.Context, changed func()) error
	Recorder     Recorder
	// Reporter is nil if there is nobody to tell.
	Reporter Reporter
	Marker   Marker
	Log      *slog.Logger
}

// Plugin is the device plugin of one node.
type Plugin struct {
	cfg      Config
	log      *slog.Logger
	observer *observer
	reload   chan struct{}
	sockets  chan struct{}
	status   chan struct{}
	// chosen tells of choices.
	choices choices
	chosen  chan struct{}
	// left has the names of servers that have ended, since their resource is gone.
	left  chan string
	ready atomic.Pointer[readiness]

	// What follows is owned by the goroutine of Run.
	health *health.Machine
	// node is offered by the config, for which prepared was made.
	node     *gpu.Node
	config   config.Config
	prepared Prepared
	topology *allocate.Topology
	// trouble is why the node is not offered as it is.
	trouble error
	// hang is set while the driver hangs.
	hang error
	// look is when the node is looked at without an event.
	look *alarm
	// gap is set for a while after readiness was lost to the kubelet: one that
	// restarts is back before it ends.
	gap     <-chan time.Time
	servers map[string]*server.Server
	offered resource.Set
	group   *errgroup.Group
}

// New returns a Plugin; it does nothing before Run.
func New(cfg Config) *Plugin {
	p := &Plugin{
		cfg:      cfg,
		log:      cfg.Log,
		observer: newObserver(cfg),
		reload:   make(chan struct{}, 1),
		chosen:   make(chan struct{}, 1),
		left:     make(chan string),
		sockets:  make(chan struct{}, 1),
		status:   make(chan struct{}, 1),
		health:   health.New(cfg.Rules),
		config:   cfg.Config,
		servers:  map[string]*server.Server{},
	}
	p.ready.Store(&readiness{err: errStarting})
	return p
}

// Reload looks at the node again and forgets what made GPUs unhealthy. What is
// served stays up meanwhile.
func (p *Plugin) Reload() { signal(p.reload) }

// Run offers the node's GPUs until ctx ends, and removes its sockets then.
func (p *Plugin) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	p.group = g
	g.Go(func() error { return p.observer.run(ctx) })
	g.Go(func() error { return p.loop(ctx) })
	g.Go(func() error {
		p.watchSockets(ctx)
		return nil
	})
	err := g.Wait()
	return errors.Join(err, p.cfg.Marker.NotReady())
}

func (p *Plugin) watchSockets(ctx context.Context) {
	err := p.cfg.WatchSockets(ctx, func() { signal(p.sockets) })
	if err != nil && ctx.Err() == nil {
		p.log.Warn("the kubelet's folder is not watched, looking from time to time", "at_most", server.Recheck, "err", err)
	}
}

func (p *Plugin) loop(ctx context.Context) error {
	hangs, stop := p.hangTicks()
	defer stop()
	p.look = newAlarm()
	defer p.look.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case obs := <-p.observer.looks:
			if err := p.observed(ctx, obs); err != nil {
				return err
			}
		case ev := <-p.observer.events:
			p.event(ctx, ev)
		case <-p.sockets:
			for _, s := range p.servers {
				s.Wake()
			}
		case <-p.reload:
			p.log.Info("reloading")
			p.health.Reset()
			p.observer.lookAfresh()
			for _, s := range p.servers {
				s.Wake()
			}
		case <-p.chosen:
			p.choose(ctx)
		case name := <-p.left:
			delete(p.servers, name)
			p.publish(ctx)
		case <-p.status:
		case <-hangs:
			p.checkHang(ctx)
		case <-p.gap:
			p.tellGap()
		case <-p.look.rings():
			p.observer.look()
		}
		p.look.set(p.health.Next())
		if ctx.Err() != nil {
			return nil
		}
		p.mark()
	}
}

func (p *Plugin) observed(ctx context.Context, obs observation) error {
	if obs.err != nil && p.cfg.Config.FailOnInitError && p.node == nil {
		return fmt.Errorf("%w (fail-on-init-error is set)", obs.err)
	}
	before := p.trouble
	p.trouble = obs.err
	switch {
	case errors.Is(obs.err, gpu.ErrNoDriver):
		p.health.DriverGone(obs.err.Error())
	case obs.node == nil:
		// Somebody else needs NVML for a while, or it did not answer once: what
		// was known of the GPUs still holds.
	case obs.err == nil:
		if p.node != obs.node {
			p.topology = allocate.NewTopology(obs.node)
		}
		p.node, p.config, p.prepared = obs.node, obs.config, obs.prepared
		p.health.Observe(obs.node, obs.at)
	case p.node != nil:
		// What could not be prepared is not offered; what was is, as far as it
		// still works.
		p.health.Observe(obs.node, obs.at)
	}
	p.publish(ctx)
	p.mark()
	p.log.Debug("looked at the node", "err", obs.err)
	p.tell(before, obs.err)
	return nil
}

// tell tells a trouble once, not after every look.
func (p *Plugin) tell(before, err error) {
	switch {
	case p.hang != nil: // which is told already
	case err == nil:
		p.cfg.Recorder.Waiting("")
	case before != nil && before.Error() == err.Error():
	default:
		p.cfg.Recorder.Waiting(err.Error())
		p.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		p.log.Warn("gpus cannot be offered, waiting", "err", err)
	}
}

func (p *Plugin) event(ctx context.Context, ev gpu.Event) {
	counts := p.health.Apply(ev, time.Now())
	if counts {
		p.publish(ctx)
	}
	p.cfg.Recorder.Event(ev)
	if ev.Kind == gpu.EventXID && !counts {
		p.log.Info("xid ignored", "gpu", ev.GPU, "xid", ev.XID)
	}
	if health.NeedsLook(ev) {
		p.observer.look()
	}
}
