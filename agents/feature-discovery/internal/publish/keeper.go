package publish

import (
	"context"
	"log/slog"
	"time"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// KeeperConfig describes a Keeper.
type KeeperConfig struct {
	Output Output
	// Every is the time between checks of the published labels; 0 for no checks.
	Every time.Duration
	Log   *slog.Logger
}

// Keeper keeps labels published at an Output that cannot be watched.
type Keeper struct {
	*target
	cfg KeeperConfig
}

// NewKeeper returns a Keeper; it does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	return &Keeper{target: newTarget(nil), cfg: cfg}
}

// Run keeps the labels until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	failing := pace.Backoff{First: retryMin, Most: retryMax}
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	logged := ""
	var busy time.Time // until then, the API server asks to wait
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
			if time.Now().Before(busy) {
				continue
			}
		case <-again.C:
		}
		err := k.put(ctx)
		busy = time.Now().Add(kube.RetryAfter(err))
		in := k.cfg.Every
		if err == nil {
			logged = ""
			failing.Reset()
		} else {
			in = kube.RetryIn(&failing, err)
			if ctx.Err() == nil && err.Error() != logged {
				logged = err.Error()
				k.cfg.Log.Error("cannot publish labels, retrying", "in", in, "err", err)
			}
		}
		if in > 0 {
			again.Reset(in)
		}
	}
}

func (k *Keeper) put(ctx context.Context) error {
	desired, report := k.take()
	var err error
	if desired.Labels != nil {
		err = k.cfg.Output.Put(ctx, desired.Labels)
	}
	report(err)
	return err
}
