// Package pace connects the goroutines of an agent: coalesced signals, values of
// which only the newest counts, readiness, pauses that end with a context, and
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

// Drain removes a signal that nobody has received.
func Drain(c chan struct{}) {
	select {
	case <-c:
	default:
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

// alignedMin is the shortest time that Aligned returns for a d that is much longer.
const alignedMin = 10 * time.Millisecond

// Aligned returns the time until the clock shows a multiple of d: at most d and 10 ms. Use
// it for periodic checks that can happen at any time. If all of them happen at the same
// times, a process at rest wakes up once for all of them. That is worth it: a timer of Go
// that ends a sleep of a minute costs 2 ms of CPU, because the kernel may end the sleep of
// epoll_wait(2) a thousandth later, and until then the runtime checks again and again
// whether somebody handles the timer. Do not use it for requests to a server that all nodes
// share: their clocks agree.
func Aligned(d time.Duration) time.Duration {
	left := d - time.Duration(time.Now().UnixNano())%d
	if left < min(alignedMin, d/10) {
		left += d
	}
	return left
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
