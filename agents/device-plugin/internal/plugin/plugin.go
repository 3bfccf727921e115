// Package plugin advertises the resources of the newest State to the kubelet, with one
// server for each resource.
package plugin

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/reconcile"
)

// Inventory is the source of the State to advertise. Its methods may be called at any time.
type Inventory interface {
	State() inventory.State
	// Notify sets the function that is called after each new State.
	Notify(func())
	// Hangs returns an error while the driver hangs.
	Hangs() error
	// Link requests the links of the GPUs in the next States. It does not block.
	Link()
}

// Config configures a Plugin.
type Config struct {
	Inventory Inventory
	// KubeletSocket is the kubelet's registration socket. The plugin's own sockets are
	// in the same folder.
	KubeletSocket string
	// Register is false for a plugin that only serves.
	Register bool
	// WatchSockets calls changed for each change in the kubelet's folder of sockets. It
	// returns when ctx ends.
	WatchSockets func(ctx context.Context, changed func())
	Recorder     server.Recorder
	// Ready is called with the node when the plugin becomes ready, and with nil when it is no
	// longer ready. It must not block for long.
	Ready func(*gpu.Node)
	Log   *slog.Logger
}

// Plugin is the device plugin of one node.
type Plugin struct {
	cfg  Config
	log  *slog.Logger
	loop *reconcile.Loop
	// ready is the reason why the plugin is not ready. It changes before Config.Ready is called.
	ready *reconcile.Status
	// linked is closed once the servers have all links of the GPUs that could be read.
	// markLinked closes it.
	linked     chan struct{}
	markLinked func()

	mu      sync.Mutex
	servers map[string]*server.Server

	// The loop owns the fields below.
	state    inventory.State
	topology allocate.Topology
	// warnAfter is the time after which the plugin logs a warning that the kubelet is gone. It is
	// zero while the kubelet is there. A kubelet that restarts is back before that time.
	warnAfter time.Time
	group     *errgroup.Group
}

// New returns a Plugin. It does nothing before Run.
func New(cfg Config) *Plugin {
	linked := make(chan struct{})
	p := &Plugin{
		cfg:     cfg,
		log:     cfg.Log,
		ready:   reconcile.NewStatus(inventory.State{}.Unusable()),
		linked:  linked,
		servers: map[string]*server.Server{},

		markLinked: sync.OnceFunc(func() { close(linked) }),
	}
	p.loop = reconcile.New(reconcile.Config{Name: "plugin", Step: p.step, Log: cfg.Log})
	cfg.Inventory.Notify(p.loop.Wake)
	return p
}

// Wake makes all servers check their sockets now.
func (p *Plugin) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		s.Wake()
	}
}

// Run advertises the node's GPUs until ctx ends. Then it removes its sockets.
func (p *Plugin) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	p.group = g
	g.Go(func() error { return p.loop.Run(ctx) })
	g.Go(func() error { p.cfg.WatchSockets(ctx, p.Wake); return nil })
	err := g.Wait()
	p.cfg.Ready(nil)
	return err
}

// step advertises the newest State.
func (p *Plugin) step(ctx context.Context) (reconcile.Result, error) {
	s := p.cfg.Inventory.State()
	if s.Node != nil && s.Node != p.state.Node {
		p.topology = allocate.NewTopology(s.Node)
	}
	p.state = s
	p.publish(ctx)
	if s.Linked {
		p.markLinked()
	}
	return reconcile.Result{After: p.updateReady()}, nil
}

// waitLinks returns once the servers have all links of the GPUs that could be read, or when
// ctx ends. The links are read when they are first needed.
func (p *Plugin) waitLinks(ctx context.Context) {
	select {
	case <-p.linked:
		return
	default:
	}
	p.cfg.Inventory.Link()
	select {
	case <-p.linked:
	case <-ctx.Done():
	}
}
