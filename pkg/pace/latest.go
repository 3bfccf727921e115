package pace

import "sync/atomic"

// Latest is a channel for values of which only the newest counts. A value that
// nobody has received yet is replaced by the next one, so that a slow receiver
// never holds up a sender. Make it with NewLatest and receive from it as from any
// channel.
type Latest[T any] chan T

// NewLatest returns a Latest without a value.
func NewLatest[T any]() Latest[T] { return make(Latest[T], 1) }

// Put makes v the newest value. It does not block, and is safe for concurrent
// use: of values that are put at the same time, any one is the newest.
func (l Latest[T]) Put(v T) {
	for {
		select {
		case l <- v:
			return
		default:
		}
		select {
		case <-l: // older, and not received yet
		default:
		}
	}
}

// Readiness holds the reason why an agent is not ready. The loop of the agent
// sets it, and /readyz reads it from another goroutine.
type Readiness struct{ err atomic.Pointer[error] }

// NewReadiness returns a Readiness with a first reason.
func NewReadiness(err error) *Readiness {
	r := &Readiness{}
	r.err.Store(&err)
	return r
}

// Set replaces the reason, nil for ready.
func (r *Readiness) Set(err error) { r.err.Store(&err) }

// Swap is Set, and returns the reason before.
func (r *Readiness) Swap(err error) (before error) { return *r.err.Swap(&err) }

// Err returns the reason, nil while the agent is ready.
func (r *Readiness) Err() error { return *r.err.Load() }
