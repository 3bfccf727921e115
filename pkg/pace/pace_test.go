package pace_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
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

// Checks with different periods happen together, and never twice at once.
func TestAlignedChecksHappenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace.Pause(t.Context(), 7*time.Second)
		times := map[time.Time]bool{}
		for _, d := range []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute} {
			begin := time.Now()
			for n := 1; n <= 10; n++ {
				left := pace.Aligned(d)
				if left <= 0 || left > d+10*time.Millisecond {
					t.Fatalf("Aligned(%s) = %s", d, left)
				}
				// A timer may ring a little early, by another clock.
				pace.Pause(t.Context(), left-time.Millisecond)
				times[time.Now()] = true
			}
			if took := time.Since(begin); took > 10*d {
				t.Errorf("10 checks every %s took %s", d, took)
			}
		}
		for at := range times {
			if off := at.Add(time.Millisecond).Sub(at.Add(time.Millisecond).Truncate(30 * time.Second)); off != 0 {
				t.Errorf("a check at %s, %s after the others", at, off)
			}
		}
	})
}
