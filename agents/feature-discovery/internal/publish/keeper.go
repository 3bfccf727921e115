package publish

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// KeeperConfig describes a Keeper.
type KeeperConfig struct {
	Output Output
	// Every is the interval between checks of the published labels. 0 means no checks.
	Every time.Duration
	Log   *slog.Logger
}

// Keeper keeps labels published at an Output, even if another process removes or changes them.
// It notices changes of a File at once, and changes of other outputs at the next check.
type Keeper struct {
	cfg  KeeperConfig
	loop *reconcile.Loop
	// labels has the labels to publish, nil while they are unknown.
	labels atomic.Pointer[map[string]string]
	// published has the labels that were published last.
	published atomic.Pointer[map[string]string]
}

const (
	retryMin = time.Second
	retryMax = 5 * time.Minute
)

var errPending = errors.New("the labels have not been published yet")

// NewKeeper returns a Keeper. It does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	k := &Keeper{cfg: cfg}
	loop := reconcile.Config{
		Name: "labels", Step: k.step, Starting: errPending, Retry: pace.Backoff{First: retryMin, Most: retryMax}, Delays: kube.Delays,
		Log: cfg.Log,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Error("cannot publish labels, retrying", "in", in, "err", err)
		},
	}
	if _, ok := cfg.Output.(File); ok {
		loop.Retry = pace.Backoff{} // writing a file again is cheap
	}
	k.loop = reconcile.New(loop)
	return k
}

// Set sets the labels to publish. If they are nil, the published labels do not change. Set does
// not block.
func (k *Keeper) Set(labels map[string]string) {
	k.labels.Store(&labels)
	k.loop.Wake()
}

// Err returns nil if the labels are published, and otherwise why they are not.
func (k *Keeper) Err() error {
	if err := k.loop.Ready(); err != nil {
		return err
	}
	if k.published.Load() != k.labels.Load() {
		return errPending
	}
	return nil
}

// Run keeps the labels until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if f, ok := k.cfg.Output.(File); ok {
		var watching sync.WaitGroup
		defer watching.Wait()
		watching.Go(func() { hostfs.Watch(ctx, k.cfg.Log, k.loop.Recheck, f.Path) })
	}
	return k.loop.Run(ctx)
}

func (k *Keeper) step(ctx context.Context) (reconcile.Result, error) {
	labels := k.labels.Load()
	if labels != nil && *labels != nil {
		if err := k.cfg.Output.Put(ctx, *labels); err != nil {
			return reconcile.Result{After: k.cfg.Every}, err
		}
	}
	k.published.Store(labels)
	return reconcile.Result{After: k.cfg.Every}, nil
}
