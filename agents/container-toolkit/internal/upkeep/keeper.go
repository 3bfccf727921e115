package upkeep

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// Result is the result of a call of KeeperConfig.Reconcile.
type Result struct {
	// After is the time until the next call if nothing changes, 0 for none.
	After time.Duration
	// Watched are the files and folders whose changes cause another call. nil keeps the
	// files and folders of the previous call.
	Watched []string
}

// KeeperConfig describes a part that consists of files on the host.
type KeeperConfig struct {
	Part Part
	// Reconcile makes the part as desired. It writes nothing if the part is as desired already.
	Reconcile func(ctx context.Context) (Result, error)
	// Once makes Run return after the first Reconcile without an error.
	Once bool
	// Retry has the delays after errors, as in reconcile.Config.
	Retry  pace.Backoff
	Status *Status
	Log    *slog.Logger
}

// Keeper reconciles a part.
type Keeper struct {
	KeeperConfig
	loop *reconcile.Loop
	// done is closed after the first Reconcile without an error.
	done chan struct{}
	// cancel ends Run, unwatch ends the watch of paths.
	cancel, unwatch context.CancelFunc
	watching        sync.WaitGroup
	paths           []string
}

// NewKeeper returns a Keeper. It does nothing before Run.
func NewKeeper(cfg KeeperConfig) *Keeper {
	k := &Keeper{KeeperConfig: cfg, done: make(chan struct{}), unwatch: func() {}}
	k.loop = reconcile.New(reconcile.Config{
		Name: string(k.Part), Step: k.step, Retry: k.Retry, Log: k.Log,
		Failed: func(err error, in time.Duration) {
			k.Log.Warn("cannot bring a part of the toolkit to its desired state, retrying", "part", string(k.Part), "in", in, "err", err)
		},
	})
	return k
}

// Done is closed after the part has been as desired for the first time.
func (k *Keeper) Done() <-chan struct{} { return k.done }

// Reload causes another call of Reconcile. It does not block.
func (k *Keeper) Reload() { k.loop.Wake() }

// Run reconciles the part until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ctx, k.cancel = context.WithCancel(ctx)
	defer k.watching.Wait()
	defer k.cancel()
	return k.loop.Run(ctx)
}

func (k *Keeper) step(ctx context.Context) (reconcile.Result, error) {
	r, err := k.Reconcile(ctx)
	if ctx.Err() != nil {
		return reconcile.Result{}, err
	}
	k.Status.Set(k.Part, err)
	if err == nil {
		k.finish()
	}
	k.watch(ctx, r.Watched)
	return reconcile.Result{After: r.After}, err
}

// finish records that Reconcile has succeeded.
func (k *Keeper) finish() {
	select {
	case <-k.done:
	default:
		close(k.done)
	}
	if k.Once {
		k.cancel()
	}
}

// watch replaces the watched paths.
func (k *Keeper) watch(ctx context.Context, paths []string) {
	slices.Sort(paths)
	if paths == nil || slices.Equal(paths, k.paths) {
		return
	}
	k.unwatch()
	k.watching.Wait()
	k.paths = paths
	ctx, k.unwatch = context.WithCancel(ctx)
	k.watching.Go(func() { hostfs.Watch(ctx, k.Log, k.loop.Recheck, paths...) })
}
