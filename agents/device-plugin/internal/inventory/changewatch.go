package inventory

import (
	"context"
	"sync"
)

// changeWatch watches the node for changes that may let a look succeed. It
// runs only while looks fail, so that a sound node is left alone.
type changeWatch struct {
	observer *observer
	changed  chan struct{}
	cancel   context.CancelFunc
	done     sync.WaitGroup
}

// start begins to watch. What changed just before is not missed: a watch
// begins with one report.
func (w *changeWatch) start(ctx context.Context) {
	if w.cancel != nil {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.done.Go(func() {
		err := w.observer.watchChanges(ctx, func() { signal(w.changed) })
		if err != nil && ctx.Err() == nil {
			w.observer.log.Warn("changes on the node are not watched, looking from time to time", "at_most", retryMax, "err", err)
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
	drain(w.changed)
}
