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

	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

// Grace is how long the GPUs have to be away before their labels go. A reset may
// take one from the bus for seconds, and with the labels go the agents.
const Grace = 30 * time.Second

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
)

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

	// again and retry are owned by the goroutine that looks at the bus: when to
	// look at one again that could not be read.
	again *time.Timer
	retry pace.Backoff

	mu  sync.Mutex
	err error
	// keeps is set while the Node is kept.
	keeps bool
}

var errStarting = errors.New("start: the PCI bus has not been looked at yet")

// New returns a Presence; it does nothing before Run.
func New(cfg Config) *Presence {
	return &Presence{
		cfg:     cfg,
		changed: make(chan struct{}, 1),
		retry:   pace.Backoff{First: retryMin, Most: retryMax},
		err:     errStarting,
	}
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
	p.again = time.AfterFunc(retryMax, p.Reload)
	defer p.again.Stop()
	for wait := p.cfg.Grace; p.absent(ctx, wait); wait = 0 {
		if err := p.present(ctx); err != nil {
			return err
		}
	}
	return nil
}

// look returns the labels that the bus calls for, and whether that is known. If
// not, the bus is looked at again after a while.
func (p *Presence) look() (labels map[string]string, known bool) {
	p.again.Stop()
	devices, err := p.cfg.Scan()
	switch {
	case err == nil:
	case slices.ContainsFunc(devices, pci.Device.GPU):
		// One device that cannot be read does not hide the others.
		p.cfg.Log.Warn("the PCI bus cannot be read whole", "err", err)
	default:
		p.fail(err)
		p.again.Reset(p.retry.Next())
		return nil, false
	}
	p.retry.Reset()
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
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for due, failed, told := false, false, false; ; {
		select {
		case <-ctx.Done():
			return false
		case <-p.changed:
		case <-remove.C:
			due = true
		}
		labels, known := p.look()
		if len(labels) > 0 {
			return true
		}
		if !known {
			continue
		}
		if !told {
			told = true
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

// remove removes the labels from a Node without GPUs, and reports whether there
// are none.
func (p *Presence) remove(ctx context.Context) bool {
	err := p.cfg.Node.Once(ctx, publish.Wanted{Labels: map[string]string{}})
	if err != nil && ctx.Err() == nil {
		p.fail(err)
	}
	return err == nil
}

// present keeps the labels while there are GPUs, and for a while after.
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

// follow has the Node say what the bus shows until the GPUs have been away for
// long enough, or ctx ends.
func (p *Presence) follow(ctx context.Context) {
	gone := time.NewTimer(0)
	gone.Stop()
	defer gone.Stop()
	pace.Signal(p.changed)
	for away, over := false, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-gone.C:
			over = true
		}
		labels, known := p.look()
		if !known {
			continue
		}
		p.set(nil)
		switch {
		case len(labels) > 0:
			gone.Stop()
			away, over = false, false
			p.cfg.Node.Want(publish.Wanted{Labels: labels})
		case over:
			p.cfg.Log.Warn("the NVIDIA GPUs have left the PCI bus, removing the labels")
			return
		case !away:
			away = true
			p.cfg.Log.Warn("no NVIDIA GPU on the PCI bus any more, waiting before the labels go", "for", p.cfg.Grace)
			gone.Reset(p.cfg.Grace)
		}
	}
}

// fail notes why the Node may not say what the bus shows, and logs it once.
func (p *Presence) fail(err error) {
	p.mu.Lock()
	was := p.err
	p.err = err
	p.mu.Unlock()
	if was == nil || was.Error() != err.Error() {
		p.cfg.Log.Error("it is not known that the labels tell what the PCI bus shows, trying again", "err", err)
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
