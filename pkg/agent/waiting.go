package agent

import (
	"context"
	"sync"

	"outrigger.dev/pkg/reconcile"
)

// Waiting reports why App.New has not returned yet. ctx is the context of its cli.Context. From the
// first call until New returns, /readyz answers 503 with the reason and /healthz answers 200, so
// that the kubelet does not restart an agent that waits for something outside of its node. Waiting
// does nothing after New has returned.
func Waiting(ctx context.Context, reason error) {
	if w, ok := ctx.Value(waitingKey{}).(*waiting); ok {
		w.report(ctx, reason)
	}
}

type waitingKey struct{}

// waiting serves the probes of an agent whose App.New waits.
type waiting struct {
	endpoint endpoint

	mu sync.Mutex
	// ended is set after New has returned.
	ended bool
	// reason and stop are nil before the first report. stop stops the server.
	reason *reconcile.Status
	stop   func()
}

// context returns the context for New.
func (w *waiting) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitingKey{}, w)
}

func (w *waiting) report(ctx context.Context, reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case w.reason != nil:
		w.reason.Set(reason)
	default:
		w.reason = reconcile.NewStatus(reason)
		w.start(ctx)
	}
}

// start starts the server. If the agent cannot serve its probes, it still waits, because it needs
// the address only after New has returned.
func (w *waiting) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	w.stop = func() { cancel(); serving.Wait() }
	serving.Go(func() {
		srv, err := w.endpoint.server(ctx, &Agent{Parts: []Part{{Name: "start", Ready: w.reason.Err}}})
		if err == nil {
			err = srv.run(ctx)
		}
		if err != nil && ctx.Err() == nil {
			w.endpoint.log.Warn("cannot serve probes while the agent waits", "err", err)
		}
	})
}

// end stops the server, which frees the address.
func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.stop != nil {
		w.stop()
	}
}
