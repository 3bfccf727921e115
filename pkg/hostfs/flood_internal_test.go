package hostfs

import (
	"context"
	"testing"

	"github.com/fsnotify/fsnotify"
	"gotest.tools/v3/assert"
)

// TestEventsWithoutEndHoldNothingUp has more events at hand than are taken as
// one change, as when somebody writes into a watched folder without pause.
func TestEventsWithoutEndHoldNothingUp(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWatcher(dir)
	assert.NilError(t, err)
	events := w.fs.Events
	t.Cleanup(func() {
		w.fs.Events = events
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	assert.NilError(t, w.Next(t.Context()))
	flood := make(chan fsnotify.Event, 4*maxBatch)
	for range cap(flood) {
		flood <- fsnotify.Event{Name: dir + "/file", Op: fsnotify.Write}
	}
	w.fs.Events = flood
	for left := len(flood); left > 2*maxBatch; left = len(flood) {
		assert.NilError(t, w.Next(t.Context()))
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
