package kube

import (
	"fmt"
	"sync"
	"time"
)

// failingAfter is how long a watch has to fail before Failing reports it. Connections
// end when an API server is updated, and the next one works.
const failingAfter = 5 * time.Second

// Failures holds the watches that do not work. Its zero value has none. It is safe for
// concurrent use.
type Failures struct {
	mu sync.Mutex
	// watches has the failures by watcher.
	watches map[any]failure
}

// failure is why a watch does not work, and since when.
type failure struct {
	err   error
	since time.Time
}

// Set records why a watch does not work, nil if it does. since is when that began, unless
// it did not work before.
func (f *Failures) Set(watch any, err error, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.watches, watch)
		return
	}
	if f.watches == nil {
		f.watches = map[any]failure{}
	}
	if was, ok := f.watches[watch]; ok {
		since = was.since
	}
	f.watches[watch] = failure{err: err, since: since}
}

// errAt returns why the watch that fails longest does not work, if that is failingAfter
// or more.
func (f *Failures) errAt(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var longest failure
	for _, w := range f.watches {
		if longest.err == nil || w.since.Before(longest.since) {
			longest = w
		}
	}
	if longest.err == nil || now.Sub(longest.since) < failingAfter {
		return nil
	}
	return longest.err
}

// Err returns why objects that are watched are not known as they are now: a watch has
// failed for 5 s. It returns nil while all watches work.
func (f *Failures) Err() error {
	if err := f.errAt(time.Now()); err != nil {
		return fmt.Errorf("changes on the API server are not seen: %w", err)
	}
	return nil
}

// Failing returns why objects that the client watches are not known as they are now, see
// Failures.Err.
func (c *Client) Failing() error { return c.failing.Err() }
