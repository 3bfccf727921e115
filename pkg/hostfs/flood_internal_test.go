package hostfs

import (
	"context"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// TestEventsWithoutEndHoldNothingUp has more events at hand than are taken as
// one change, as when somebody writes into a watched folder without pause.
func TestEventsWithoutEndHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWatcher(dir)
	if err != nil {
		t.Fatal(err)
	}
	events := w.fs.Events
	t.Cleanup(func() {
		w.fs.Events = events
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	flood := make(chan fsnotify.Event, 4*maxBatch)
	for range cap(flood) {
		flood <- fsnotify.Event{Name: dir + "/file", Op: fsnotify.Write}
	}
	w.fs.Events = flood
	for left := len(flood); left > 2*maxBatch; left = len(flood) {
		if err := w.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if taken := left - len(flood); taken > maxBatch+1 {
			t.Fatalf("Next() took %d events as one change, want at most %d", taken, maxBatch+1)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w.Next(ctx) == nil {
		t.Error("Next() reports a change although its context has ended")
	}
}
