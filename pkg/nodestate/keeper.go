package nodestate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// Keeper keeps the Node in the desired state, even if others change it.
type Keeper struct {
	*Writer
	loop    *reconcile.Loop
	desired atomic.Pointer[Desired]
	// published is the last desired state that was published.
	published atomic.Pointer[Desired]
	// failed is the error of the last write, if a part of it failed.
	failed reconcile.Status
}

var errPending = errors.New("the desired state has not been published yet")

// NewKeeper returns a Keeper. It does nothing before Run or Once.
func NewKeeper(client *kube.Client, cfg Config) *Keeper { return keeperOf(New(client, cfg)) }

func keeperOf(w *Writer) *Keeper {
	k := &Keeper{Writer: w}
	k.desired.Store(&Desired{})
	k.loop = reconcile.New(reconcile.Config{
		Name: "node", Step: k.step, Starting: errUnread, Retry: pace.Backoff{First: againFirst, Most: againMost}, Delays: kube.Delays,
		Log: w.cfg.Log,
		Failed: func(err error, in time.Duration) {
			w.cfg.Log.Error("cannot write the node, retrying", "in", in, "err", err)
		},
	})
	return k
}

// Set sets the desired state to d. It does not block.
func (k *Keeper) Set(d Desired) {
	k.desired.Store(&d)
	k.loop.Wake()
}

// Err returns nil if the desired state is published, and otherwise the reason why it is not.
func (k *Keeper) Err() error {
	if err := k.loop.Ready(); err != nil {
		return err
	}
	if k.published.Load() != k.desired.Load() {
		return errPending
	}
	return nil
}

// Run keeps the Node in the desired state until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.forget() // the Node of an earlier Run is outdated
	k.failed.Set(nil)
	k.published.Store(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		k.Watch(ctx, func() {
			// A change of the Node does not end the delay after a failed write, because others may
			// change the Node all the time.
			if k.failed.Err() == nil {
				k.loop.Wake()
			}
		})
	})
	return k.loop.Run(ctx)
}

// step writes the fields that are due.
func (k *Keeper) step(ctx context.Context) (reconcile.Result, error) {
	d := k.desired.Load()
	r, err := k.Put(ctx, *d)
	if err == nil && r.Pending == nil {
		k.published.Store(d)
	}
	if k.failed.Set(err) && err == nil {
		r.After = -1 // changes during the failure have not caused a step
	}
	return r, err
}

// Once writes the desired state, and returns nil when it is published.
func (k *Keeper) Once(ctx context.Context, d Desired) error {
	read, known := context.WithCancel(ctx)
	defer known()
	k.Watch(read, known)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := k.Put(ctx, d)
	return err
}
