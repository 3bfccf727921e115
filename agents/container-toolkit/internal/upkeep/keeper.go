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

// Result is the result of a call of Keeping.Put.
type Result struct {
	// Wrote is set if files were written.
	Wrote bool
	// After is the time until the next call although nothing changes, 0 for none.
	After time.Duration
	// Watched are the files and folders after whose change Put is called again; nil for those of
	// the call before.
	Watched []string
}

// Keeping describes a part that files on the host make up.
type Keeping struct {
	Part Part
	// Put makes the part as it should be. It writes nothing if it is so already.
	Put func(ctx context.Context) (Result, error)
	// Once is set if Run returns after the first Put without an error.
	Once bool
	// Retry has the delays after errors, as in reconcile.Config.
	Retry  pace.Backoff
	Status *Status
	Log    *slog.Logger
}

// Keeper keeps a part.
type Keeper struct {
	Keeping
	loop *reconcile.Loop
	// done is closed by the first Put without an error.
	done chan struct{}
	// cancel ends Run, and unwatch the watch of the paths.
	cancel, unwatch context.CancelFunc
	watching        sync.WaitGroup
	paths           []string
	// watch is why the paths cannot be watched.
	watch reconcile.Status
	// entries is hostfs.WatchEntries.
	entries func(ctx context.Context, changed func(), paths ...string) error
}

// NewKeeper returns a Keeper. It does nothing before Run.
func NewKeeper(cfg Keeping) *Keeper {
	k := &Keeper{Keeping: cfg, done: make(chan struct{}), unwatch: func() {}, entries: hostfs.WatchEntries}
	k.loop = reconcile.New(reconcile.Config{
		Name: string(k.Part), Step: k.step, Retry: k.Retry, Log: k.Log,
		Failed: func(err error, in time.Duration) {
			k.Log.Warn("cannot make a part of the toolkit as it should be, retrying", "part", string(k.Part), "in", in, "err", err)
		},
	})
	return k
}

// Done is closed once the part has been as it should be.
func (k *Keeper) Done() <-chan struct{} { return k.done }

// Reload causes another call of Put. It does not block.
func (k *Keeper) Reload() { k.loop.Wake() }

// Run keeps the part until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ctx, k.cancel = context.WithCancel(ctx)
	defer k.watching.Wait()
	defer k.cancel()
	return k.loop.Run(ctx)
}

func (k *Keeper) step(ctx context.Context) (reconcile.Result, error) {
	r, err := k.Put(ctx)
	if ctx.Err() != nil {
		return reconcile.Result{}, err
	}
	k.Status.Set(k.Part, err)
	if err == nil {
		k.finish()
	}
	k.follow(ctx, r.Watched, r.Wrote || err != nil)
	return reconcile.Result{After: r.After}, err
}

// finish records that Put has succeeded.
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

// follow watches paths. If afresh is set, there may be other files and folders at the same paths,
// so that the watch begins anew.
func (k *Keeper) follow(ctx context.Context, paths []string, afresh bool) {
	if paths == nil {
		paths = k.paths
	}
	slices.Sort(paths)
	if !afresh && slices.Equal(paths, k.paths) && k.watch.Err() == nil {
		return
	}
	k.unwatch()
	k.watching.Wait()
	k.paths = paths
	if len(paths) == 0 {
		return
	}
	ctx, k.unwatch = context.WithCancel(ctx)
	k.watching.Go(func() {
		// The first call, when the watch begins, finds what has changed since Put.
		err := k.entries(ctx, func() { k.watch.Set(nil); k.loop.Recheck() }, paths...)
		if ctx.Err() != nil {
			return
		}
		if k.watch.Set(err) {
			k.Log.Warn("cannot watch a part of the toolkit, polling", "part", string(k.Part), "err", err)
		}
		k.loop.Recheck()
	})
}
