package observe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

// watch passes the driver's events on. After a watch of the source has ended, the next watch begins after
// a refresh that the driver answers: at once if the driver was away, and after growing pauses otherwise.
func (o *Observer[D, P]) watch(ctx context.Context) error {
	retry := pace.Backoff{First: watchMin, Most: o.cfg.Retry.Most}
	pace.Signal(o.seen)
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-o.seen:
		}
		if o.away.Swap(false) {
			retry.Reset()
		} else if !first && !retry.Pause(ctx) {
			return nil
		}
		start := time.Now()
		err := o.cfg.Source.Watch(ctx, func(ev gpu.Event) { o.deliver(ctx, ev) })
		failed := o.begin()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // ctx has ended the watch
		case errors.Is(err, gpu.ErrDriverChanged):
			return err
		case failed:
			continue // the first refresh reports why
		}
		level := slog.LevelWarn
		if errors.Is(err, gpu.ErrClosed) {
			level = slog.LevelDebug
		}
		o.cfg.Log.Log(ctx, level, "health events ended, subscribing again", "err", err)
		if time.Since(start) > o.cfg.Retry.Most {
			retry.Reset()
		}
		// The next refresh shows the cause. The next watch begins after the driver has answered it.
		pace.Drain(o.seen)
		o.Refresh()
	}
}

// deliver passes an event on. The first event means that the watch is active. The first refresh
// waits for the first event.
func (o *Observer[D, P]) deliver(ctx context.Context, ev gpu.Event) {
	if o.begin() && ev.Kind == gpu.EventTopologyChanged {
		return
	}
	select {
	case o.events <- ev:
	case <-ctx.Done():
	}
}

// begin lets the first refresh begin. It returns false if it did so before.
func (o *Observer[D, P]) begin() bool {
	select {
	case <-o.begun:
		return false
	default:
		close(o.begun)
		return true
	}
}
