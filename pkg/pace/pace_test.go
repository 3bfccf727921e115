package pace_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
)

func TestSignalsFallTogether(t *testing.T) {
	c := make(chan struct{}, 1)
	pace.Signal(c)
	pace.Signal(c)
	if len(c) != 1 {
		t.Fatalf("%d signals wait, want 1", len(c))
	}
	pace.Drain(c)
	pace.Drain(c)
	if len(c) != 0 {
		t.Errorf("%d signals wait after Drain, want none", len(c))
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !pace.Pause(ctx, 0) {
		t.Error("Pause() = false, want true after its time")
	}
	cancel()
	if pace.Pause(ctx, time.Hour) {
		t.Error("Pause() = true, want false after the end of its context")
	}
}

func TestBackoffDoubles(t *testing.T) {
	b := pace.Backoff{First: 2, Most: 9}
	var got []time.Duration
	for range 4 {
		got = append(got, b.Next())
	}
	b.Reset()
	got = append(got, b.Next())
	if want := []time.Duration{2, 4, 8, 9, 2}; !slices.Equal(got, want) {
		t.Errorf("times between tries %v, want %v", got, want)
	}
}
