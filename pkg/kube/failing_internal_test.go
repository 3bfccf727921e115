package kube

import (
	"errors"
	"io"
	"testing"
	"time"
)

func TestFailing(t *testing.T) {
	var f Failures
	start := time.Now()
	check := func(after time.Duration, want error) {
		t.Helper()
		if got := f.errAt(start.Add(after)); !errors.Is(got, want) || got != nil && want == nil {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
	lost, forbidden := io.ErrUnexpectedEOF, errors.New("forbidden")
	check(0, nil)
	f.Set("nodes", lost, start)
	check(failingAfter-1, nil) // the next connection may work
	check(failingAfter, lost)
	// The newest reason counts, and the time of the first.
	f.Set("nodes", forbidden, start.Add(failingAfter))
	check(failingAfter, forbidden)
	// Another watch that has just failed hides nothing.
	f.Set("pods", lost, start.Add(failingAfter))
	check(failingAfter, forbidden)
	f.Set("nodes", nil, start.Add(failingAfter))
	check(failingAfter, nil)
	check(2*failingAfter, lost)
	f.Set("pods", nil, start)
	check(3*failingAfter, nil)
}
