package hostfs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"outrigger.dev/pkg/pace"
)

// ErrUnwatchable is returned for a path on procfs or sysfs, where the kernel changes files
// without events for inotify.
var ErrUnwatchable = errors.New("inotify does not see changes on procfs and sysfs")

// pollTime is how often the paths are polled while they cannot be watched.
const pollTime = 5 * time.Second

// Watch calls changed from the caller's goroutine, first when it begins to watch, and then
// after each change of one of the paths. It returns when ctx ends. See NewWatcher for what
// can be watched.
//
// While it cannot watch, for example because all inotify instances of the user are in use,
// it logs why and calls changed every 5 s instead. It tries again to watch each time.
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
	logged := ""
	for {
		err := w.watch(ctx, func() {
			if logged != "" {
				logged = ""
				w.log.Info("watching files again", "paths", w.paths)
			}
		})
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != logged {
			logged = text
			w.log.Warn("cannot watch files, polling", "every", w.poll, "err", err)
		}
		w.changed()
		if !pace.Pause(ctx, w.poll) {
			return
		}
	}
}

// watch watches until it fails, and returns why. It calls begun once it watches.
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
