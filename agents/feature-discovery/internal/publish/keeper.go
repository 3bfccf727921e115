package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// retryFile is the longest delay after a failure to write a file of the node: another
// attempt costs nothing.
const retryFile = 5 * time.Second

// KeeperConfig describes a Keeper.
type KeeperConfig struct {
	Output Output
	// Every is the time between checks of the published labels; 0 for no checks.
	Every time.Duration
	Log   *slog.Logger
}

// Keeper keeps labels published at an Output, whoever removes or changes them. It notices
// at once what happens to a Watched output, and to other ones with the next check.
type Keeper struct {
	*target
	cfg KeeperConfig
}

// Watched is an Output that is a file of the node.
type Watched interface {
	// WatchedFile returns the path of the file.
	WatchedFile() string
}

// NewKeeper returns a Keeper; it does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	return &Keeper{target: newTarget(nil), cfg: cfg}
}

// Run keeps the labels until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	keeping := pace.Keeping{
		Put: k.put, Desired: k.changed, Every: k.cfg.Every,
		Retry: pace.Backoff{First: retryMin, Most: retryMax}, RetryIn: kube.RetryIn, Busy: kube.RetryAfter,
		Failed: func(err error, in time.Duration) {
			k.cfg.Log.Error("cannot publish labels, retrying", "in", in, "err", err)
		},
	}
	if w, ok := k.cfg.Output.(Watched); ok {
		found := make(chan struct{}, 1)
		keeping.Found, keeping.Retry.Most = found, retryFile
		var watching sync.WaitGroup
		defer watching.Wait()
		watching.Go(func() { hostfs.Watch(ctx, k.cfg.Log, func() { pace.Signal(found) }, w.WatchedFile()) })
	}
	pace.Keep(ctx, keeping)
	return nil
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
