package publish

import (
	"context"
	"log/slog"
	"time"

	"outrigger.dev/pkg/pace"
)

// KeeperConfig says how labels are kept where an Output puts them.
type KeeperConfig struct {
	Output Output
	// Every is the time between checks that they are still there; 0 for none.
	Every time.Duration
	Log   *slog.Logger
}

// Keeper keeps labels published by an Output that does not tell when somebody
// changes them.
type Keeper struct {
	*wish
	cfg KeeperConfig
}

// NewKeeper returns a Keeper; it does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	return &Keeper{wish: newWish(nil), cfg: cfg}
}

// Run keeps the labels until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	failing := pace.Backoff{First: retryMin, Most: retryMax}
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.changed:
		case <-again.C:
		}
		err := k.put(ctx)
		in := k.cfg.Every
		if err == nil {
			told = ""
			failing.Reset()
		} else {
			in = failing.Next()
			if ctx.Err() == nil && err.Error() != told {
				told = err.Error()
				k.cfg.Log.Error("labels cannot be published, trying again", "in", in, "err", err)
			}
		}
		if in > 0 {
			again.Reset(in)
		}
	}
}

func (k *Keeper) put(ctx context.Context) error {
	w, tell := k.take()
	var err error
	if w.Labels != nil {
		err = k.cfg.Output.Put(ctx, w.Labels)
	}
	tell(err)
	return err
}
