// Package pace has what loops wait by: signals that fall together, pauses that
// end with a context, and times between tries that grow.
package pace

import (
	"context"
	"time"
)

// Signal tells whoever receives from c, which has room for one, that there is
// something to do. Signals that nobody has taken yet are one. It does not block.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Drain takes back a signal that nobody has received.
func Drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// Pause waits, and returns false when ctx ends before.
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

// Backoff is the time between tries, which doubles from one to the next. It is
// not safe for concurrent use.
type Backoff struct {
	// First is the time after the first try, and Most the longest one.
	First, Most time.Duration

	next time.Duration
}

// Next returns the time until the next try.
func (b *Backoff) Next() time.Duration {
	now := max(b.next, b.First)
	b.next = min(2*now, b.Most)
	return now
}

// Reset makes the next time the first one again: call it after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Pause waits for the time until the next try, and returns false when ctx ends
// before.
func (b *Backoff) Pause(ctx context.Context) bool { return Pause(ctx, b.Next()) }
