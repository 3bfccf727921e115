package upkeep

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

// Keeping describes a part that files on the host make up.
type Keeping struct {
	Part Part
	// Put makes the part as it should be. It writes nothing if it is so already. It returns
	// whether it has written, and when to call it again although nothing changes, 0 for
	// never.
	Put func(ctx context.Context) (wrote bool, again time.Duration, err error)
	// Watched returns the files and folders after whose change Put is called again. It is
	// called after each call of Put.
	Watched func() []string
	Status  *Status
	Log     *slog.Logger
}

// Keeper keeps a part.
type Keeper struct {
	Keeping
	wanted, found chan struct{}
	timer         *time.Timer
	watching      sync.WaitGroup
	stop          context.CancelFunc
	paths         []string
	// entries is hostfs.WatchEntries.
	entries func(ctx context.Context, changed func(), paths ...string) error
}

// NewKeeper returns a Keeper. It does nothing before Run.
func NewKeeper(k Keeping) *Keeper {
	return &Keeper{Keeping: k, wanted: make(chan struct{}, 1), found: make(chan struct{}, 1), stop: func() {}, entries: hostfs.WatchEntries}
}

// Again causes another call of Put. It does not block.
func (k *Keeper) Again() { pace.Signal(k.wanted) }

// Run keeps the part until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.Again()
	k.timer = time.AfterFunc(time.Hour, k.Again)
	k.timer.Stop()
	pace.Keep(ctx, pace.Keeping{
		Put: k.put, Desired: k.wanted, Found: k.found,
		Failed: func(err error, in time.Duration) {
			k.Log.Warn("cannot make a part of the toolkit as it should be, retrying", "part", string(k.Part), "in", in, "err", err)
		},
	})
	k.timer.Stop()
	k.stop()
	k.watching.Wait()
	return nil
}

func (k *Keeper) put(ctx context.Context) error {
	wrote, again, err := k.Put(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	k.Status.Set(k.Part, err)
	if k.timer.Stop(); again > 0 {
		k.timer.Reset(again)
	}
	k.watch(ctx, wrote || err != nil)
	return err
}

// watch watches the paths that Put has left. If it has written, there may be other files
// and folders at the same paths, so that the watch begins anew.
func (k *Keeper) watch(ctx context.Context, wrote bool) {
	paths := k.Watched()
	slices.Sort(paths)
	if !wrote && slices.Equal(paths, k.paths) {
		return
	}
	k.stop()
	k.watching.Wait()
	k.paths = paths
	ctx, k.stop = context.WithCancel(ctx)
	if len(paths) == 0 {
		return
	}
	// The first signal, when the watch begins, finds what has changed since Put.
	k.watching.Go(func() {
		for {
			err := k.entries(ctx, func() { pace.Signal(k.found) }, paths...)
			if ctx.Err() != nil {
				return
			}
			k.Log.Warn("cannot watch a part of the toolkit, polling", "part", string(k.Part), "every", pollTime, "err", err)
			if !pace.Pause(ctx, pollTime) {
				return
			}
		}
	})
}

// pollTime is how often a part is checked while its files cannot be watched.
const pollTime = 5 * time.Second
