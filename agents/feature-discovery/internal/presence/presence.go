// Package presence tells the cluster that its node has NVIDIA GPUs, before there
// is a driver: what a PCI scan shows, and what charts select nodes by. It runs on
// every node, and costs one without GPUs a scan and one look at its Node object.
package presence

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

// Grace is how long the GPUs have to be away before their labels go. A reset may
// take one from the bus for seconds, and with the labels go the agents.
const Grace = 30 * time.Second

// Node keeps labels on the own Node.
type Node interface {
	// Run keeps what is wanted until ctx ends.
	Run(ctx context.Context) error
	Want(publish.Wanted)
	// Once makes the Node as it is wanted, and returns nil when it is.
	Once(ctx context.Context, w publish.Wanted) error
	Err() error
}

var _ Node = (*publish.Node)(nil)

// Config says what a Presence works with.
type Config struct {
	// Scan returns NVIDIA's devices on the bus.
	Scan func() ([]pci.Device, error)
	// Watch calls changed once at first, and then when a device comes or goes. It
	// returns when ctx ends.
	Watch func(ctx context.Context, changed func()) error
	// System reads what is known of kernel and distribution.
	System func() (machine.System, error)
	Node   Node
	// Grace is usually the constant Grace.
	Grace time.Duration
	Log   *slog.Logger
}

// Presence keeps the labels of the presence of GPUs.
type Presence struct {
	cfg     Config
	changed chan struct{}

	mu  sync.Mutex
	err error
	// keeps is set while the Node is kept.
	keeps bool
}

var errStarting = errors.New("start: the PCI bus has not been looked at yet")

// New returns a Presence; it does nothing before Run.
func New(cfg Config) *Presence {
	return &Presence{cfg: cfg, changed: make(chan struct{}, 1), err: errStarting}
}

// Ready returns nil while the Node says what the bus shows, and otherwise why it
// does not.
func (p *Presence) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.keeps {
		return p.cfg.Node.Err()
	}
	return p.err
}

// Reload looks at the bus again. It does not block.
func (p *Presence) Reload() { pace.Signal(p.changed) }

// Run keeps the labels until ctx ends.
func (p *Presence) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		err := p.cfg.Watch(ctx, p.Reload)
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Error("the PCI bus is not watched: restart the pod after a GPU was added or removed", "err", err)
			p.Reload()
		}
	})
	for wait := p.cfg.Grace; p.absent(ctx, wait); wait = 0 {
		p.present(ctx)
	}
	return nil
}

// look returns the labels that the bus calls for, and whether that is known.
func (p *Presence) look() (labels map[string]string, known bool) {
	devices, err := p.cfg.Scan()
	if err != nil {
		p.fail("the PCI bus cannot be read", err)
		// One device that cannot be read does not hide the others.
		if !slices.ContainsFunc(devices, pci.Device.GPU) {
			return nil, false
		}
	}
	system, err := p.cfg.System()
	if err != nil {
		p.cfg.Log.Warn("kernel and distribution are not all known", "err", err)
	}
	return label.Presence(devices, system), true
}

// absent waits until there are GPUs, and returns false when ctx ends before. In
// the meantime, after wait, it removes what an earlier time with GPUs has left.
func (p *Presence) absent(ctx context.Context, wait time.Duration) bool {
	remove := time.NewTimer(wait)
	defer remove.Stop()
	retry := pace.Backoff{First: time.Second, Most: 5 * time.Minute}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.changed:
			labels, known := p.look()
			if len(labels) > 0 {
				return true
			}
			if known && errors.Is(p.Ready(), errStarting) {
				p.cfg.Log.Info("no NVIDIA GPU on the PCI bus, waiting for one")
				p.set(nil)
			}
		case <-remove.C:
			if _, known := p.look(); !known {
				remove.Reset(retry.Next())
				continue
			}
			err := p.cfg.Node.Once(ctx, publish.Wanted{Labels: map[string]string{}})
			if err != nil && ctx.Err() == nil {
				p.fail("labels of GPUs that are gone cannot be looked for", err)
				remove.Reset(retry.Next())
				continue
			}
			p.set(nil)
		}
	}
}

// present keeps the labels while there are GPUs, and for a while after.
func (p *Presence) present(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	p.keep(true)
	defer p.keep(false)
	defer keeping.Wait()
	defer cancel()
	keeping.Go(func() {
		if err := p.cfg.Node.Run(ctx); err != nil && ctx.Err() == nil {
			p.fail("the node is not kept", err)
		}
	})
	gone := time.NewTimer(0)
	gone.Stop()
	defer gone.Stop()
	pace.Signal(p.changed)
	away := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-gone.C:
			if labels, known := p.look(); known && len(labels) == 0 {
				p.cfg.Log.Warn("the NVIDIA GPUs have left the PCI bus, removing the labels")
				return
			}
		}
		labels, known := p.look()
		switch {
		case len(labels) > 0:
			gone.Stop()
			away = false
			p.cfg.Node.Want(publish.Wanted{Labels: labels})
			p.set(nil)
		case known && !away:
			away = true
			p.cfg.Log.Warn("no NVIDIA GPU on the PCI bus any more, waiting before the labels go", "for", p.cfg.Grace)
			gone.Reset(p.cfg.Grace)
		}
	}
}

func (p *Presence) fail(what string, err error) {
	if was := p.Ready(); was == nil || was.Error() != err.Error() {
		p.cfg.Log.Error(what, "err", err)
	}
	p.set(err)
}

func (p *Presence) keep(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = on
}

func (p *Presence) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}
