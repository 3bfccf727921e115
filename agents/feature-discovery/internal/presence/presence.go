// Package presence scans the PCI bus for NVIDIA GPUs, and labels the Node if there are some, so
// that charts can select nodes before they have a driver. It runs on every node. On a node
// without GPUs, it scans the bus, and reads the Node object once.
package presence

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/reconcile"
)

// Grace is how long the GPUs have to be absent before their labels are removed. A reset may
// remove a GPU from the bus for seconds, and without the labels, the node's GPU agents would be
// deleted.
const Grace = 30 * time.Second

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
)

// Node reconciles the labels of this node's Node.
type Node interface {
	// Run reconciles the Node with the desired state until ctx ends.
	Run(ctx context.Context) error
	Set(nodestate.Desired)
	// Once reconciles the Node with w a single time. It returns nil if that succeeds.
	Once(ctx context.Context, w nodestate.Desired) error
	Err() error
}

var _ Node = (*nodestate.Keeper)(nil)

// Config describes a Presence.
type Config struct {
	// Scan returns NVIDIA's devices on the bus.
	Scan func() ([]pci.Device, error)
	// Watch calls changed at the start and whenever a device appears or disappears.
	// It returns when ctx ends.
	Watch func(ctx context.Context, changed func())
	// System reads the kernel release and the distribution.
	System func() (machine.System, error)
	Node   Node
	// Grace is usually the constant Grace.
	Grace time.Duration
	Log   *slog.Logger
}

// Presence keeps the labels that charts use to select nodes.
type Presence struct {
	cfg  Config
	loop *reconcile.Loop
	// publishing is set while cfg.Node runs.
	publishing atomic.Bool

	// The goroutine of Run owns the fields below. stop ends cfg.Node, and is nil while cfg.Node
	// does not run.
	group *errgroup.Group
	stop  func()
	// goneSince is the time when the last GPU disappeared, zero while there is a GPU.
	goneSince time.Time
	// removed is set once the labels are removed from the Node.
	removed bool
}

// New returns a Presence. It does nothing before Run.
func New(cfg Config) *Presence {
	p := &Presence{cfg: cfg}
	p.loop = reconcile.New(reconcile.Config{
		Name: "presence", Step: p.step, Starting: errors.New("start: the PCI bus has not been scanned yet"),
		// Changes of the bus must not shorten the pause after an error.
		Retry: pace.Backoff{First: retryMin, Most: retryMax}, Delays: kube.Delays, Patient: true, Log: cfg.Log,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Error("cannot verify node labels against the PCI bus, retrying", "in", in, "err", err)
		},
	})
	return p
}

// Ready returns nil while the labels match the PCI bus, and otherwise the reason.
func (p *Presence) Ready() error {
	if err := p.loop.Ready(); err != nil || !p.publishing.Load() {
		return err
	}
	return p.cfg.Node.Err()
}

// Reload scans the bus again. It does not block.
func (p *Presence) Reload() { p.loop.Wake() }

// Run keeps the labels until ctx ends.
func (p *Presence) Run(ctx context.Context) error {
	p.group, ctx = errgroup.WithContext(ctx)
	p.group.Go(func() error { p.cfg.Watch(ctx, p.loop.Wake); return nil })
	p.group.Go(func() error { return p.loop.Run(ctx) })
	return p.group.Wait()
}

// step makes the labels match the bus. It removes them once GPUs have been absent for Grace. It
// also does this after a start, because an earlier process may have set labels.
func (p *Presence) step(ctx context.Context) (reconcile.Result, error) {
	labels, err := p.scan()
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(labels) > 0 {
		p.goneSince, p.removed = time.Time{}, false
		p.publish(ctx, labels)
		return reconcile.Result{}, nil
	}
	if p.goneSince.IsZero() {
		p.goneSince = time.Now()
		if p.stop != nil {
			p.cfg.Log.Warn("no NVIDIA GPU on the PCI bus any more, keeping the labels for a while", "for", p.cfg.Grace)
		} else {
			p.cfg.Log.Info("no NVIDIA GPU on the PCI bus, waiting for one")
		}
	}
	if in := p.cfg.Grace - time.Since(p.goneSince); in > 0 {
		return reconcile.Result{After: in}, nil
	}
	return reconcile.Result{}, p.remove(ctx)
}

// scan returns the labels for the GPUs on the bus.
func (p *Presence) scan() (map[string]string, error) {
	devices, err := p.cfg.Scan()
	if err != nil {
		if !slices.ContainsFunc(devices, pci.Device.GPU) {
			return nil, err
		}
		// Some GPUs can be read, so label the Node although other devices cannot be read.
		p.cfg.Log.Warn("cannot read some devices of the PCI bus", "err", err)
	}
	system, err := p.cfg.System()
	if err != nil {
		p.cfg.Log.Warn("cannot read kernel or distribution", "err", err)
	}
	return label.Presence(devices, system), nil
}

// publish keeps the labels on the Node until p.stop is called.
func (p *Presence) publish(ctx context.Context, labels map[string]string) {
	p.cfg.Node.Set(nodestate.Desired{Labels: labels})
	if p.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.group.Go(func() error {
		defer close(ended)
		return p.cfg.Node.Run(ctx)
	})
	p.publishing.Store(true)
	p.stop = func() {
		p.publishing.Store(false)
		cancel()
		<-ended
	}
}

// remove removes the labels from a Node without GPUs.
func (p *Presence) remove(ctx context.Context) error {
	if p.stop != nil {
		p.cfg.Log.Warn("no NVIDIA GPU on the PCI bus, removing the labels")
		p.stop()
		p.stop = nil
	}
	if p.removed {
		return nil
	}
	err := p.cfg.Node.Once(ctx, nodestate.Desired{Labels: map[string]string{}})
	p.removed = err == nil
	return err
}
