package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/pace"
)

// Writer writes what containers need to use the GPUs of a node.
type Writer interface {
	// Scan, Outdated and Watched are those of observe.Preparer.
	Scan() func(*gpu.Node) error
	Outdated() bool
	Watched() []string
}

// SpecsConfig configures a SpecsKeeper.
type SpecsConfig struct {
	Source gpu.Source
	Writer Writer
	// WatchChanges is that of observe.Config.
	WatchChanges func(ctx context.Context, changed func()) error
	Status       *Status
	Log          *slog.Logger
}

// SpecsKeeper keeps the CDI specs and the device nodes those of the GPUs that the node
// has.
type SpecsKeeper struct {
	cfg      SpecsConfig
	observer *observe.Observer[nothing, nothing]
	reload   chan struct{}
	node     atomic.Pointer[gpu.Node]
	trouble  error
}

// nothing is what this agent derives from a node.
type nothing struct{}

// NewSpecsKeeper returns a SpecsKeeper. It does nothing before Run.
func NewSpecsKeeper(cfg SpecsConfig) *SpecsKeeper {
	return &SpecsKeeper{
		cfg:    cfg,
		reload: make(chan struct{}, 1),
		observer: observe.New(observe.Config[nothing, nothing]{
			Source: cfg.Source, Preparer: preparer{cfg.Writer}, WatchChanges: cfg.WatchChanges, Log: cfg.Log,
		}),
	}
}

// Reload reads everything again. It does not block.
func (k *SpecsKeeper) Reload() { pace.Signal(k.reload) }

// Node returns the GPUs that the specs describe, nil while there are none.
func (k *SpecsKeeper) Node() *gpu.Node { return k.node.Load() }

// Once reads the GPUs once, and writes.
func (k *SpecsKeeper) Once(ctx context.Context) error {
	n, err := k.cfg.Source.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the GPUs of the node: %w", err)
	}
	_, err = preparer{k.cfg.Writer}.Scan(nothing{})(n)
	return err
}

// Run keeps the specs until ctx ends.
func (k *SpecsKeeper) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return k.observer.Run(ctx) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case obs := <-k.observer.Observations():
				if ctx.Err() == nil { // otherwise its error may be that of ctx
					k.observed(obs)
				}
			case ev := <-k.observer.Events():
				if health.NeedsRefresh(ev) {
					k.observer.Refresh()
				}
			case err := <-k.observer.Hangs():
				if err != nil {
					k.cfg.Log.Error("the driver hangs, waiting", "err", err)
				}
			case <-k.reload:
				k.observer.Reload()
			}
		}
	})
	return g.Wait()
}

func (k *SpecsKeeper) observed(obs observe.Observation[nothing, nothing]) {
	switch was := k.trouble; {
	case obs.Err == nil && was != nil:
		k.cfg.Log.Info("the driver answers, and the CDI specs are complete", "version", obs.Node.Driver.Version, "gpus", len(obs.Node.GPUs))
	case errors.Is(obs.Err, gpu.ErrClosed):
		k.cfg.Log.Debug("driver closed, waiting until it is opened again", "err", obs.Err)
	case obs.Err != nil && (was == nil || was.Error() != obs.Err.Error()):
		k.cfg.Log.Warn("containers cannot use all GPUs of the node, retrying", "err", obs.Err)
	}
	k.trouble = obs.Err
	if obs.Err == nil {
		k.node.Store(obs.Node)
	} else {
		k.node.Store(nil)
	}
	k.cfg.Status.Set(Specs, obs.Err)
}

// preparer is a Writer as an observe.Preparer.
type preparer struct{ Writer }

// Scan is that of the Writer, which derives nothing but files.
func (p preparer) Scan(nothing) func(*gpu.Node) (nothing, error) {
	write := p.Writer.Scan()
	return func(n *gpu.Node) (nothing, error) { return nothing{}, write(n) }
}
