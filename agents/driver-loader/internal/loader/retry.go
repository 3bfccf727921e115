package loader

import "errors"

// Again makes Run observe the node again.
func (l *Loader) Again() { l.loop.Wake() }

// Retry makes Run observe the node again, and try a failed driver again.
func (l *Loader) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget = true
	l.Again()
}

// forgive removes a failed change from the journal, and failed builds, after a call of Retry. The first call in a
// process removes a failed driver that was replaced by the kernel's own driver.
func (l *Loader) forgive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.started
	l.started = true
	switch {
	case l.forget:
		l.forget = false
		return errors.Join(l.journal.forgive(), l.cfg.Builder.Forget())
	case first:
		return l.journal.forgiveFirst()
	}
	return nil
}
