// Package plugin advertises the resources of the newest State to the kubelet, with one
// server for each.
//
// One goroutine owns the servers; it waits for nothing but its inputs.
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
	"outrigger.dev/pkg/pace"
)

// Inventory delivers what the node advertises.
type Inventory interface {
	States() <-chan inventory.State
	// Hangs returns an error while the driver hangs. It may be called at any time.
	Hangs() error
	// Link has the States that follow show the links of the GPUs. It may be called at
	// any time, and does not block.
	Link()
}

// Marker publishes to the other agents of the node whether the plugin is ready. It must
// not block for long.
type Marker interface {
	Ready(*gpu.Node)
	NotReady()
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
	Marker       Marker
	Log          *slog.Logger
}

// Plugin is the device plugin of one node.
type Plugin struct {
	cfg     Config
	log     *slog.Logger
	wake    chan struct{}
	sockets chan struct{}
	status  chan struct{}
	// left has the names of servers that have ended because their resource was
	// withdrawn.
	left  chan string
	ready *pace.Readiness
	// linked is closed once the servers know the links of the GPUs, as far as they can
	// be read. markLinked closes it.
	linked     chan struct{}
	markLinked func()

	// What follows is owned by the goroutine of Run.
	state    inventory.State
	topology allocate.Topology
	// gap is set for a while after the kubelet went away. A kubelet that restarts is back
	// before it ends.
	gap     <-chan time.Time
	servers map[string]*server.Server
	group   *errgroup.Group
}

// New returns a Plugin. It does nothing before Run.
func New(cfg Config) *Plugin {
	linked := make(chan struct{})
	return &Plugin{
		cfg:     cfg,
		log:     cfg.Log,
		wake:    make(chan struct{}, 1),
		left:    make(chan string),
		sockets: make(chan struct{}, 1),
		status:  make(chan struct{}, 1),
		linked:  linked,
		servers: map[string]*server.Server{},
		ready:   pace.NewReadiness(inventory.State{}.Unusable()),

		markLinked: sync.OnceFunc(func() { close(linked) }),
	}
}

// Wake makes all servers check their sockets now.
func (p *Plugin) Wake() { pace.Signal(p.wake) }

// Run advertises the node's GPUs until ctx ends. Then it removes its sockets.
func (p *Plugin) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	p.group = g
	g.Go(func() error {
		p.loop(ctx)
		return nil
	})
	g.Go(func() error {
		p.cfg.WatchSockets(ctx, func() { pace.Signal(p.sockets) })
		return nil
	})
	err := g.Wait()
	p.cfg.Marker.NotReady()
	return err
}

func (p *Plugin) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-p.cfg.Inventory.States():
			p.take(ctx, s)
		case <-p.sockets:
			p.wakeAll()
		case <-p.wake:
			p.wakeAll()
		case name := <-p.left:
			delete(p.servers, name)
			p.publish(ctx)
		case <-p.status:
		case <-p.gap:
			p.gapOver()
		}
		if ctx.Err() != nil {
			return
		}
		p.mark()
	}
}

func (p *Plugin) wakeAll() {
	for _, s := range p.servers {
		s.Wake()
	}
}

// take advertises s from now on.
func (p *Plugin) take(ctx context.Context, s inventory.State) {
	if s.Node != nil && s.Node != p.state.Node {
		p.topology = allocate.NewTopology(s.Node)
	}
	p.state = s
	p.publish(ctx)
	if s.Linked {
		p.markLinked()
	}
}

// waitLinks returns once the servers know the links of the GPUs, as far as they can be
// read, or when ctx ends. The links are read when they are needed for the first time.
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
