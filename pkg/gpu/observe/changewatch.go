package observe

import (
	"context"
	"log/slog"
	"sync"

	"outrigger.dev/pkg/pace"
)

// changeWatch watches the node for changes that may let a look succeed. It
// runs only while looks fail, so that a sound node is left alone.
type changeWatch struct {
	watch   func(context.Context, func()) error
	log     *slog.Logger
	changed chan struct{}
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func newChangeWatch[W, P any](cfg Config[W, P]) *changeWatch {
	return &changeWatch{watch: cfg.WatchChanges, log: cfg.Log, changed: make(chan struct{}, 1)}
}

// start begins to watch. What changed just before is not missed: a watch
// begins with one report.
func (w *changeWatch) start(ctx context.Context) {
	if w.cancel != nil {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.done.Go(func() {
		err := w.watch(ctx, func() { pace.Signal(w.changed) })
		if err != nil && ctx.Err() == nil {
			w.log.Warn("changes on the node are not watched, looking from time to time", "at_most", retryMax, "err", err)
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
