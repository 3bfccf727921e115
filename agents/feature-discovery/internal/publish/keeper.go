package publish

import (
	"context"
	"log/slog"
	"sync"
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
	cfg KeeperConfig

	mu     sync.Mutex
	wanted Wanted
	err    error

	changed chan struct{}
}

// NewKeeper returns a Keeper; it does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	return &Keeper{cfg: cfg, changed: make(chan struct{}, 1)}
}

// Want makes the labels of w what is published. It does not block.
func (k *Keeper) Want(w Wanted) {
	k.mu.Lock()
	k.wanted = w
	k.mu.Unlock()
	pace.Signal(k.changed)
}

// Err returns nil while the labels are published, as far as is known, and
// otherwise why they are not.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
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
	k.mu.Lock()
	labels := k.wanted.Labels
	k.mu.Unlock()
	if labels == nil {
		return nil
	}
	err := k.cfg.Output.Put(ctx, labels)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	return err
}
