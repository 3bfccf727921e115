package publish

import (
	"errors"
	"sync"

	"outrigger.dev/pkg/pace"
)

// wish is what is wanted, and what has become of it.
type wish struct {
	// changed has a signal when something is wanted.
	changed chan struct{}

	mu     sync.Mutex
	wanted Wanted
	// given counts what was wanted so far, and known is the one that err is of.
	given, known int
	err          error
}

// newWish returns one of which err is known before anything is wanted.
func newWish(err error) *wish {
	return &wish{changed: make(chan struct{}, 1), err: err}
}

var errPending = errors.New("what is wanted now has not been published yet")

// Want makes w what is published. It does not block.
func (w *wish) Want(wanted Wanted) {
	w.mu.Lock()
	w.wanted = wanted
	w.given++
	w.mu.Unlock()
	pace.Signal(w.changed)
}

// Err returns nil while what is wanted is published, as far as is known, and
// otherwise why it is not.
func (w *wish) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.known != w.given {
		return errPending
	}
	return w.err
}

// take returns what is wanted, and what tells what has become of it.
func (w *wish) take() (wanted Wanted, tell func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.given
	return w.wanted, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.known, w.err = taken, err
	}
}
