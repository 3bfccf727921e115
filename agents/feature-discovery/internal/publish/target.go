package publish

import (
	"errors"
	"sync"

	"outrigger.dev/pkg/pace"
)

// target is the desired state, and the result of publishing it.
type target struct {
	// changed has a signal after each Set.
	changed chan struct{}

	mu      sync.Mutex
	desired Desired
	// set counts the calls of Set. reported is the count that err belongs to.
	set, reported int
	err           error
}

// newTarget returns a target whose Err is err until the first report.
func newTarget(err error) *target {
	return &target{changed: make(chan struct{}, 1), err: err}
}

var errPending = errors.New("the desired state has not been published yet")

// Set makes d the desired state. It does not block.
func (t *target) Set(d Desired) {
	t.mu.Lock()
	t.desired = d
	t.set++
	t.mu.Unlock()
	pace.Signal(t.changed)
}

// Err returns nil if the desired state is published, and otherwise why it is not.
func (t *target) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && t.reported != t.set {
		return errPending
	}
	return t.err
}

// take returns the desired state, and a function that records the result of
// publishing it.
func (t *target) take() (desired Desired, report func(error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.set
	return t.desired, func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reported, t.err = taken, err
	}
}
