package pace

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
