// Package presence labels the Node of a machine with NVIDIA GPUs by a scan of its
// PCI bus, so that charts can select nodes before they have a driver. It runs on
// every node. On one without GPUs it scans the bus and reads the Node object once.
package presence

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

// Grace is how long the GPUs have to be absent before their labels are removed. A reset
// may take a GPU off the bus for seconds, and without the labels the node's GPU agents
// would be deleted.
const Grace = 30 * time.Second

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
)

// Node reconciles the labels of this node's Node.
type Node interface {
	// Run reconciles the Node with the desired state until ctx ends.
	Run(ctx context.Context) error
	Set(publish.Desired)
	// Once reconciles the Node with w, and returns nil when they agree.
	Once(ctx context.Context, w publish.Desired) error
	Err() error
}

var _ Node = (*publish.Node)(nil)

// Config describes a Presence.
type Config struct {
	// Scan returns NVIDIA's devices on the bus.
	Scan func() ([]pci.Device, error)
	// Watch calls changed at the start and whenever a device appears or disappears.
	// It returns when ctx ends.
	Watch func(ctx context.Context, changed func())
	// System reads kernel and distribution.
	System func() (machine.System, error)
	Node   Node
	// Grace is usually the constant Grace.
	Grace time.Duration
	Log   *slog.Logger
}

// Presence keeps the labels by which charts select nodes.
type Presence struct {
	cfg     Config
	changed chan struct{}

	// again and retry schedule the next scan of a bus that could not be read. The
	// goroutine that scans owns them.
	again *time.Timer
	retry pace.Backoff

	mu  sync.Mutex
	err error
	// keeps is set while cfg.Node runs.
	keeps bool
}

var errStarting = errors.New("start: the PCI bus has not been scanned yet")

// New returns a Presence; it does nothing before Run.
func New(cfg Config) *Presence {
	return &Presence{
		cfg:     cfg,
		changed: make(chan struct{}, 1),
		retry:   pace.Backoff{First: retryMin, Most: retryMax},
		err:     errStarting,
	}
}

// Ready returns nil while the labels match the PCI bus, and otherwise why they do
// not.
func (p *Presence) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.keeps {
		return p.cfg.Node.Err()
	}
	return p.err
}

// Reload scans the bus again. It does not block.
func (p *Presence) Reload() { pace.Signal(p.changed) }

// Run keeps the labels until ctx ends.
func (p *Presence) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { p.cfg.Watch(ctx, p.Reload) })
	p.again = time.AfterFunc(retryMax, p.Reload)
	defer p.again.Stop()
	for wait := p.cfg.Grace; p.absent(ctx, wait); wait = 0 {
		if err := p.present(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scan returns the labels for the GPUs on the bus, and whether they are known. If
// they are not, it schedules another scan.
func (p *Presence) scan() (labels map[string]string, known bool) {
	p.again.Stop()
	devices, err := p.cfg.Scan()
	switch {
	case err == nil:
	case slices.ContainsFunc(devices, pci.Device.GPU):
		// One device that cannot be read does not hide the others.
		p.cfg.Log.Warn("cannot read some devices of the PCI bus", "err", err)
	default:
		p.fail(err)
		p.again.Reset(p.retry.Next())
		return nil, false
	}
	p.retry.Reset()
	system, err := p.cfg.System()
	if err != nil {
		p.cfg.Log.Warn("cannot read kernel or distribution", "err", err)
	}
	return label.Presence(devices, system), true
}

// absent waits until there are GPUs, and returns false if ctx ends before. After
// wait it removes labels that are left from a time with GPUs.
func (p *Presence) absent(ctx context.Context, wait time.Duration) bool {
	remove := time.NewTimer(wait)
	defer remove.Stop()
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for due, failed, logged := false, false, false; ; {
		select {
		case <-ctx.Done():
			return false
		case <-p.changed:
		case <-remove.C:
			due = true
		}
		labels, known := p.scan()
		if len(labels) > 0 {
			return true
		}
		if !known {
			continue
		}
		if !logged {
			logged = true
			p.cfg.Log.Info("no NVIDIA GPU on the PCI bus, waiting for one")
		}
		if due {
			due, failed = false, !p.remove(ctx)
			if failed {
				remove.Reset(retry.Next())
			}
		}
		if !failed {
			p.set(nil)
		}
	}
}

// remove removes the labels from a Node without GPUs, and reports whether that
// succeeded.
func (p *Presence) remove(ctx context.Context) bool {
	err := p.cfg.Node.Once(ctx, publish.Desired{Labels: map[string]string{}})
	if err != nil && ctx.Err() == nil {
		p.fail(err)
	}
	return err == nil
}

// present keeps the labels while there are GPUs, and for Grace after that.
func (p *Presence) present(ctx context.Context) error {
	p.keep(true)
	defer p.keep(false)
	g, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.Go(func() error { return p.cfg.Node.Run(ctx) })
	g.Go(func() error {
		defer cancel()
		p.follow(ctx)
		return nil
	})
	return g.Wait()
}

// follow sets the labels for the GPUs on the bus until these have been absent for
// Grace, or ctx ends.
func (p *Presence) follow(ctx context.Context) {
	gone := time.NewTimer(0)
	gone.Stop()
	defer gone.Stop()
	pace.Signal(p.changed)
	for absent, over := false, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-gone.C:
			over = true
		}
		labels, known := p.scan()
		if !known {
			continue
		}
		p.set(nil)
		switch {
		case len(labels) > 0:
			gone.Stop()
			absent, over = false, false
			p.cfg.Node.Set(publish.Desired{Labels: labels})
		case over:
			p.cfg.Log.Warn("no NVIDIA GPU on the PCI bus, removing the labels")
			return
		case !absent:
			absent = true
			p.cfg.Log.Warn("no NVIDIA GPU on the PCI bus any more, keeping the labels for a while", "for", p.cfg.Grace)
			gone.Reset(p.cfg.Grace)
		}
	}
}

// fail records why the labels may not match the bus, and logs it once.
func (p *Presence) fail(err error) {
	p.mu.Lock()
	was := p.err
	p.err = err
	p.mu.Unlock()
	if was == nil || was.Error() != err.Error() {
		p.cfg.Log.Error("cannot verify node labels against the PCI bus, retrying", "err", err)
	}
}

func (p *Presence) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *Presence) keep(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = on
}
