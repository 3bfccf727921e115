// Package pace connects the goroutines of an agent: coalesced signals, values of
// which only the newest counts, pauses that end with a context, and
// delays between attempts that grow.
package pace

import (
	"context"
	"time"
)

// Signal wakes the receiver of c, which must have a capacity of one. Signals that
// nobody has received yet count as one. It does not block.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Drain removes a signal that nobody has received, and reports whether there was one.
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

// Backoff is the delay between attempts, which doubles with each attempt. It is not
// safe for concurrent use.
type Backoff struct {
	// First is the delay after the first attempt, and Most the longest delay.
	First, Most time.Duration

	next time.Duration
}

// Next returns the delay before the next attempt.
func (b *Backoff) Next() time.Duration {
	now := max(b.next, b.First)
	b.next = min(2*now, b.Most)
	return now
}

// Reset makes the next delay the first one again. Call it after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits for the delay before the next attempt. It returns false if ctx ends
// first.
func (b *Backoff) Pause(ctx context.Context) bool { return Pause(ctx, b.Next()) }
