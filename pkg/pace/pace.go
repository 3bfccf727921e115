// Package pace connects the goroutines of an agent: coalesced signals, channels that hold only the
// newest value, pauses and reads that end with a context, and growing delays between attempts.
package pace

import (
	"context"
	"io"
	"time"
)

// Signal wakes the receiver of c, which must have a capacity of one. Signals that were not received
// yet count as one. Signal does not block.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Drain removes a signal that was not received yet, and reports whether there was one.
func Drain(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Pause waits for d. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Reader returns a reader that reads from r until ctx ends, and then fails with the error of ctx. Use it
// for large files: a single read is not interrupted.
func Reader(ctx context.Context, r io.Reader) io.Reader { return reader{ctx, r} }

type reader struct {
	ctx context.Context //nolint:containedctx // a reader exists for one copy
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Backoff is the delay between attempts. It doubles with each attempt. It is not safe for
// concurrent use.
type Backoff struct {
	// First is the delay after the first attempt. Most is the longest delay.
	First, Most time.Duration

	next time.Duration
}

// Next returns the delay before the next attempt.
func (b *Backoff) Next() time.Duration {
	now := max(b.next, b.First)
	b.next = min(2*now, b.Most)
	return now
}

// Reset sets the next delay to First. Call it after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits for the delay before the next attempt. It returns false if ctx ends
// first.
func (b *Backoff) Pause(ctx context.Context) bool { return Pause(ctx, b.Next()) }
