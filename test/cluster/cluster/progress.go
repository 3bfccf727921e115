package cluster

import (
	"context"
	"fmt"
	"io"
	"time"
)

// pollInterval is the interval between checks of a condition without an event.
const pollInterval = 100 * time.Millisecond

// progress prints one line per step, with the seconds since the start.
type progress struct {
	w     io.Writer
	begin time.Time
}

func newProgress(w io.Writer) progress { return progress{w: w, begin: time.Now()} }

// busy reports that another process holds the lock.
func (p progress) busy() { p.say("another process starts or removes a cluster: waiting for it") }

func (p progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, "%6.1f s  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}

// wait calls the function try until it succeeds. Otherwise, it returns the last error of try.
func wait(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		// Keep the last error of try: the end of the context explains nothing.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait %s: %w", limit, last)
		case <-ticker.C:
		}
	}
}
