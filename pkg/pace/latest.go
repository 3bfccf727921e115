package pace

// Latest is a channel that holds only the newest value. A value that was not received yet is
// replaced by the next one, so that a slow receiver never blocks a sender. Make it with NewLatest
// and receive from it as from any channel.
type Latest[T any] chan T

// NewLatest returns a Latest without a value.
func NewLatest[T any]() Latest[T] { return make(Latest[T], 1) }

// Put makes v the newest value. It does not block, and is safe for concurrent use. If several
// values are put at the same time, any of them is the newest.
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
