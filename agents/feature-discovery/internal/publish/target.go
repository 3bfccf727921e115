package publish

import (
	"context"
	"errors"
	"sync/atomic"

	"outrigger.dev/pkg/reconcile"
)

// target is the desired state, and the loop that publishes it.
type target struct {
	loop    *reconcile.Loop
	desired atomic.Pointer[Desired]
	// published is the desired state that was published last.
	published atomic.Pointer[Desired]
}

var errPending = errors.New("the desired state has not been published yet")

// reconcile makes publish the step of the loop. It is called before anything else.
func (t *target) reconcile(cfg reconcile.Config, publish func(context.Context, Desired) (reconcile.Result, error)) {
	t.desired.Store(&Desired{})
	cfg.Step = func(ctx context.Context) (reconcile.Result, error) {
		d := t.desired.Load()
		r, err := publish(ctx, *d)
		if err == nil && r.Pending == nil {
			t.published.Store(d)
		}
		return r, err
	}
	t.loop = reconcile.New(cfg)
}

// Set makes d the desired state. It does not block.
func (t *target) Set(d Desired) {
	t.desired.Store(&d)
	t.loop.Wake()
}

// Err returns nil if the desired state is published, and otherwise why it is not.
func (t *target) Err() error {
	if err := t.loop.Ready(); err != nil {
		return err
	}
	if t.published.Load() != t.desired.Load() {
		return errPending
	}
	return nil
}
