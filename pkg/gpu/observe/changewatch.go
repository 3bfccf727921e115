package observe

import (
	"context"
	"sync"
	"sync/atomic"

	"outrigger.dev/pkg/pace"
)

// changeWatch runs a watch in a separate goroutine, from start to stop.
type changeWatch struct {
	// run calls its argument after the watch is active, and then for each change, until its context
	// ends.
	run func(context.Context, func()) error
	// failed is called with the error of a watch that ended by itself.
	failed func(error)
	// changed has a signal after a change, and after the end of the watch.
	changed chan struct{}

	broken atomic.Bool
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newChangeWatch(run func(context.Context, func()) error, failed func(error)) *changeWatch {
	return &changeWatch{run: run, failed: failed, changed: make(chan struct{}, 1)}
}

// start begins to watch. Changes shortly before are not missed, because a watch begins with a
// signal.
func (w *changeWatch) start(ctx context.Context) {
	if w.cancel != nil {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.broken.Store(false)
	w.done.Go(func() {
		err := w.run(ctx, func() { pace.Signal(w.changed) })
		if err != nil && ctx.Err() == nil {
			w.broken.Store(true)
			w.failed(err)
			pace.Signal(w.changed)
		}
	})
}

func (w *changeWatch) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.done.Wait()
	w.cancel = nil
	pace.Drain(w.changed)
}
