package kube

import (
	"fmt"
	"sync"
	"time"
)

// failingAfter is the time that a watch must fail before Failing reports it. During an
// update of an API server, a connection ends, but the next connection works.
const failingAfter = 5 * time.Second

// Failures holds the failing watches. Its zero value has none. It is safe for concurrent use.
type Failures struct {
	mu sync.Mutex
	// watches has the failures by watcher.
	watches map[any]failure
}

// failure is the error of a watch, and the time since which the watch fails.
type failure struct {
	err   error
	since time.Time
}

// Set records the error of a watch, or nil if the watch works. The parameter since is the start of
// the failure, unless the watch was failing before.
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

// errAt returns the error of the watch that has failed for the longest time, if that time is at
// least failingAfter.
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

// Err returns an error if a watch has failed for 5 s. The known state of the watched objects may
// then be outdated. It returns nil while all watches work.
func (f *Failures) Err() error {
	if err := f.errAt(time.Now()); err != nil {
		return fmt.Errorf("changes on the API server are not seen: %w", err)
	}
	return nil
}

// Failing returns an error if a watch of the client has failed for 5 s (see Failures.Err).
func (c *Client) Failing() error { return c.failing.Err() }
