package hostfs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

// ErrUnwatchable is returned for a path on procfs or sysfs, where the kernel changes files without
// events for inotify.
var ErrUnwatchable = errors.New("inotify does not see changes on procfs and sysfs")

// pollTime is the interval of polling while the paths cannot be watched.
const pollTime = 5 * time.Second

// Watch calls changed from the caller's goroutine: once when it begins to watch, and then after
// each change of one of the paths. It returns when ctx ends. NewWatcher describes the paths that
// can be watched.
//
// If it cannot watch, for example because all inotify instances of the user are in use, it logs why
// and calls changed every 5 s instead. It tries again to watch each time.
func Watch(ctx context.Context, log *slog.Logger, changed func(), paths ...string) {
	watching{new: NewWatcher, poll: pollTime, log: log, changed: changed, paths: paths}.run(ctx)
}

// watching is one call of Watch.
type watching struct {
	new     func(paths ...string) (*Watcher, error)
	poll    time.Duration
	log     *slog.Logger
	changed func()
	paths   []string
}

func (w watching) run(ctx context.Context) {
	_ = Rewatch(ctx, w.log, w.poll, func(works func()) error { // Rewatch ends with ctx
		err := w.watch(ctx, works)
		if ctx.Err() == nil {
			w.changed()
		}
		return err
	})
}

// watch watches until it fails, and returns why. It calls begun when the watch is active.
func (w watching) watch(ctx context.Context, begun func()) error {
	fw, err := w.new(w.paths...)
	if err != nil {
		return err
	}
	defer fw.Close() //nolint:errcheck // nothing was written through it
	begun()
	for {
		if err := fw.Next(ctx); err != nil {
			return err
		}
		w.changed()
	}
}

// Rewatch calls watch again after each failure and a pause, until watch returns nil or ctx ends.
// The function watch calls the function works when the watch is active, and returns an error when
// the watch fails. Rewatch logs the error once.
func Rewatch(ctx context.Context, log *slog.Logger, pause time.Duration, watch func(works func()) error) error {
	var status reconcile.Status
	for {
		err := watch(func() {
			if status.Set(nil) {
				log.Info("watching for changes again")
			}
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if status.Set(err) {
			log.Warn("cannot watch for changes, polling", "every", pause, "err", err)
		}
		if !pace.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
}
