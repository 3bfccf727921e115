package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/reconcile"
)

// none is the type of the preparer's result. It is empty, because this agent writes files.
type none = struct{}

// SpecsConfig configures a SpecsKeeper.
type SpecsConfig struct {
	Source gpu.Source
	// Writer writes the CDI specs for the GPUs of a node.
	Writer observe.Preparer[none, none]
	// WatchChanges is observe.Config.WatchChanges.
	WatchChanges func(ctx context.Context, changed func()) error
	Status       *Status
	Log          *slog.Logger
}

// SpecsKeeper keeps the CDI specs and the device nodes up to date with the GPUs of the node.
type SpecsKeeper struct {
	cfg      SpecsConfig
	observer *observe.Observer[none, none]
	node     atomic.Pointer[gpu.Node]
	last     reconcile.Status
	// gpus has no value while there are no complete specs.
	gpus *prometheus.GaugeVec
}

// NewSpecsKeeper returns a SpecsKeeper. It does nothing before Run.
func NewSpecsKeeper(cfg SpecsConfig) *SpecsKeeper {
	return &SpecsKeeper{
		cfg: cfg,
		observer: observe.New(observe.Config[none, none]{
			Source: cfg.Source, Preparer: cfg.Writer, WatchChanges: cfg.WatchChanges, Log: cfg.Log,
		}),
		gpus: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "gpus",
			Help: "Number of GPUs that the CDI specs describe; absent while there are no complete specs.",
		}, nil),
	}
}

// Metrics returns the number of GPUs.
func (k *SpecsKeeper) Metrics() prometheus.Collector { return k.gpus }

// Reload reads the driver and the GPUs again. It does not block.
func (k *SpecsKeeper) Reload() { k.observer.Reload() }

// Node returns the GPUs that the specs describe. It returns nil if there are no complete specs.
func (k *SpecsKeeper) Node() *gpu.Node { return k.node.Load() }

// Once reads the GPUs and writes the specs once.
func (k *SpecsKeeper) Once(ctx context.Context) error {
	n, err := k.cfg.Source.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the GPUs of the node: %w", err)
	}
	_, err = k.cfg.Writer.Scan(none{})(n)
	return err
}

// Run keeps the specs up to date until ctx ends.
func (k *SpecsKeeper) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return k.observer.Run(ctx) })
	g.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case obs := <-k.observer.Observations():
				if ctx.Err() == nil { // otherwise its error may come from ctx
					k.handleObservation(obs)
				}
			case ev := <-k.observer.Events():
				if health.NeedsRefresh(ev) {
					k.observer.Refresh()
				}
			case err := <-k.observer.Hangs():
				if err != nil {
					k.cfg.Log.Error("the driver does not answer, waiting", "err", err)
				}
			}
		}
	})
	return g.Wait()
}

func (k *SpecsKeeper) handleObservation(obs observe.Observation[none, none]) {
	switch changed := k.last.Set(obs.Err); {
	case obs.Err == nil && changed:
		k.cfg.Log.Info("the driver answers, and the CDI specs are complete", "version", obs.Node.Driver.Version, "gpus", len(obs.Node.GPUs))
	case errors.Is(obs.Err, gpu.ErrClosed):
		k.cfg.Log.Debug("driver closed, waiting until it is opened again", "err", obs.Err)
	case obs.Err != nil && changed:
		k.cfg.Log.Warn("containers cannot use all GPUs of the node, retrying", "err", obs.Err)
	}
	if obs.Err == nil {
		k.node.Store(obs.Node)
		k.gpus.WithLabelValues().Set(float64(len(obs.Node.GPUs)))
	} else {
		k.node.Store(nil)
		k.gpus.Reset()
	}
	k.cfg.Status.Set(Specs, obs.Err)
}
