package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// KeeperConfig describes a Keeper.
type KeeperConfig struct {
	Output Output
	// Every is the time between checks of the published labels; 0 for no checks.
	Every time.Duration
	Log   *slog.Logger
}

// Keeper keeps labels published at an Output, whoever removes or changes them. It notices
// at once what happens to a File, and to other outputs with the next check.
type Keeper struct {
	target
	cfg KeeperConfig
}

// NewKeeper returns a Keeper; it does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	k := &Keeper{cfg: cfg}
	loop := reconcile.Config{
		Name: "labels", Starting: errPending, Retry: pace.Backoff{First: retryMin, Most: retryMax}, Delays: kube.Delays,
		Log: cfg.Log,
		Failed: func(err error, in time.Duration) {
			cfg.Log.Error("cannot publish labels, retrying", "in", in, "err", err)
		},
	}
	if _, ok := cfg.Output.(File); ok {
		loop.Retry = pace.Backoff{} // to try again costs nothing
	}
	k.reconcile(loop, k.put)
	return k
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

func (k *Keeper) put(ctx context.Context, desired Desired) (reconcile.Result, error) {
	var err error
	if desired.Labels != nil {
		err = k.cfg.Output.Put(ctx, desired.Labels)
	}
	return reconcile.Result{After: k.cfg.Every}, err
}
