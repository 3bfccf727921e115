package contract

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"outrigger.dev/pkg/reconcile"
)

// Keeper keeps a fact published while it is desired. It publishes the fact again if another program
// removes, truncates or replaces its file, and retries while the run root cannot be written. If
// another living process holds the same fact, the Keeper does not replace it. It publishes its fact
// when that process ends.
type Keeper struct {
	dir  Dir
	path string
	// lasting is set for a fact that stays valid after its writer ends.
	lasting bool
	log     *slog.Logger
	loop    *reconcile.Loop

	mu sync.Mutex
	// record is the desired fact, nil for none. published is the fact that is held.
	record, published *Record
	held              *Held
	// lost is set after the log reports that the published fact was removed or changed.
	lost bool
}

// NewLastingKeeper returns a Keeper of a fact that stays valid after its writer ends. Its Withdraw
// removes the file even if another writer wrote it.
func (d Dir) NewLastingKeeper(n Name, log *slog.Logger) *Keeper {
	k := d.NewKeeper(d.Path(n), log)
	k.lasting = true
	return k
}

// NewKeeper returns a Keeper of a held fact, without a desired one. path is a result of Path, or a
// path for HoldFile.
func (d Dir) NewKeeper(path string, log *slog.Logger) *Keeper {
	k := &Keeper{dir: d, path: path, log: log}
	k.loop = reconcile.New(reconcile.Config{
		Name: "fact " + filepath.Base(path), Failed: k.failed, Log: log,
		Step: func(context.Context) (reconcile.Result, error) { return reconcile.Result{}, k.put() },
	})
	return k
}

// Publish makes r the desired fact. If it cannot be written now, Run writes it later.
func (k *Keeper) Publish(r Record) { k.want(&r) }

// Withdraw removes the fact.
func (k *Keeper) Withdraw() { k.want(nil) }

func (k *Keeper) want(r *Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r == nil {
		k.release(k.lasting)
	}
	if r == nil || k.record == nil || !r.equal(*k.record) {
		k.record = r
	}
	// Write now, so that the file exists when the caller continues. Run reports an error.
	_ = k.putLocked()
	k.loop.Wake()
}

// Run keeps the fact until ctx ends, and then withdraws it.
func (k *Keeper) Run(ctx context.Context) error {
	err := k.Keep(ctx)
	k.Withdraw()
	return err
}

// Keep is Run without the withdrawal. The caller withdraws the fact, or leaves its file. A file
// without its process means that the writer has ended.
func (k *Keeper) Keep(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { _ = k.dir.WatchFiles(ctx, k.loop.Recheck, k.path) }) // WatchFiles ends with ctx
	return k.loop.Run(ctx)
}

func (k *Keeper) failed(err error, in time.Duration) {
	if errors.Is(err, ErrNoRunRoot) {
		k.log.Info("cannot publish a fact to other agents, retrying", "fact", k.path, "in", in, "err", err)
		return
	}
	k.log.Warn("cannot publish a fact to other agents, retrying", "fact", k.path, "in", in, "err", err)
}

func (k *Keeper) put() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.putLocked()
}

// putLocked publishes the desired fact unless it is published already.
func (k *Keeper) putLocked() error {
	if k.record == nil {
		return nil
	}
	if k.held != nil && k.published == k.record {
		if k.held.Intact() || k.held.replaced(k.dir) {
			return nil
		}
		if !k.lost {
			k.lost = true
			k.log.Warn("another program removed or changed a fact, publishing it again", "fact", k.path)
		}
	}
	held, err := k.dir.put(k.path, *k.record, !k.lasting)
	if err != nil {
		return err
	}
	k.release(false) // release the file that the new file replaces
	k.held, k.published, k.lost = held, k.record, false
	return nil
}

// release withdraws the published fact or, if all is set, any file at the path.
func (k *Keeper) release(all bool) {
	err := k.held.Release()
	if all {
		err = errors.Join(err, remove(k.path))
	}
	if err != nil {
		k.log.Error("cannot withdraw a fact, other agents may see it until this process ends", "fact", k.path, "err", err)
	}
	k.held = nil
}
