package observe

import (
	"context"
	"log/slog"
	"time"
)

// paths watches the files and folders that the preparation depends on. For a Preparer without such
// paths, it watches nothing and starts no timer. Only one goroutine uses it.
type paths struct {
	log *slog.Logger
	// entries is hostfs.WatchEntries.
	entries func(ctx context.Context, changed func(), paths ...string) error
	// preparation is the number of the preparation whose paths are watched.
	preparation int
	list        []string
	watch       *changeWatch
	timer       *time.Timer
}

// follow watches the paths that the preparation with this number depends on. The function list returns
// them. follow begins a new watch for each preparation, because the preparation may have replaced the
// files at the paths.
func (p *paths) follow(ctx context.Context, list func() []string, number int) {
	if p.preparation == number {
		return
	}
	p.stop()
	p.preparation, p.list = number, list()
	if len(p.list) > 0 {
		p.start(ctx, slog.LevelWarn)
		p.timer = time.NewTimer(recheck)
	}
}

// start begins to watch. It logs a failure at the level.
func (p *paths) start(ctx context.Context, level slog.Level) {
	list := p.list
	p.watch = newChangeWatch(
		func(ctx context.Context, changed func()) error { return p.entries(ctx, changed, list...) },
		func(err error) {
			p.log.Log(ctx, level, "cannot watch the driver's folders and the prepared files, polling", "every", poll, "err", err)
		})
	p.watch.start(ctx)
}

// schedule sets the timer for the next check without a signal. It reports whether the watch is
// active.
func (p *paths) schedule() bool {
	broken := p.watch.broken.Load()
	if broken {
		p.timer.Reset(poll)
	} else {
		p.timer.Reset(recheck)
	}
	return !broken
}

// repair restarts a watch that has ended.
func (p *paths) repair(ctx context.Context) {
	if p.watch.broken.Load() {
		p.watch.stop()
		p.start(ctx, slog.LevelDebug)
	}
	p.schedule()
}

// changed has a signal after a change. It is nil without a watch.
func (p *paths) changed() <-chan struct{} {
	if p.watch == nil {
		return nil
	}
	return p.watch.changed
}

// tick has a value when a check is due without a reported change.
func (p *paths) tick() <-chan time.Time {
	if p.watch == nil {
		return nil
	}
	return p.timer.C
}

func (p *paths) stop() {
	if p.watch == nil {
		return
	}
	p.watch.stop()
	p.timer.Stop()
	p.watch = nil
}
