package pace_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/pkg/pace"
)

// keep runs Keep until the test ends, and returns how often Put was called since the last
// call of the function that it returns.
func keep(t *testing.T, k pace.Keeping, put func() error) (calls func() int) {
	var n atomic.Int32
	k.Put = func(context.Context) error { n.Add(1); return put() }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); pace.Keep(ctx, k) }()
	t.Cleanup(func() { cancel(); <-done })
	return func() int {
		synctest.Wait()
		return int(n.Swap(0))
	}
}

func TestKeepRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desired := make(chan struct{}, 1)
		fails, logged := 5, 0
		calls := keep(t, pace.Keeping{Desired: desired, Failed: func(error, time.Duration) { logged++ }}, func() error {
			if fails == 0 {
				return nil
			}
			fails--
			return errors.New("no space")
		})
		pace.Pause(t.Context(), time.Hour)
		if n := calls(); n != 0 {
			t.Errorf("%d calls before the first signal, want none", n)
		}
		pace.Signal(desired)
		if n := calls(); n != 1 {
			t.Errorf("%d calls at once, want 1", n)
		}
		pace.Pause(t.Context(), 18*time.Second) // 1 + 2 + 4 + 5 + 5
		if n := calls(); n != 5 || logged != 1 {
			t.Errorf("%d more calls, and the error was logged %d times, want 5 and once", n, logged)
		}
		pace.Pause(t.Context(), time.Hour)
		if n := calls(); n != 0 {
			t.Errorf("%d calls after the last one succeeded, want none", n)
		}
	})
}

// TestKeepDoesNotFight: another program undoes at once what Put does.
func TestKeepDoesNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		found := make(chan struct{}, 1)
		var fighting atomic.Bool
		fighting.Store(true)
		calls := keep(t, pace.Keeping{Found: found}, func() error {
			if fighting.Load() {
				pace.Signal(found)
			}
			return nil
		})
		pace.Signal(found)
		if n := calls(); n != 1 {
			t.Errorf("%d calls at once, want 1", n)
		}
		pace.Pause(t.Context(), time.Second)
		if n := calls(); n < 4 || n > 8 {
			t.Errorf("%d calls in the first second, want some", n)
		}
		pace.Pause(t.Context(), time.Minute)
		calls()
		pace.Pause(t.Context(), time.Minute)
		if n := calls(); n < 11 || n > 13 {
			t.Errorf("%d calls in a minute, want one every 5 s", n)
		}
		fighting.Store(false)
		pace.Pause(t.Context(), time.Minute)
		calls()
		pace.Signal(found)
		if n := calls(); n != 1 {
			t.Errorf("%d calls at once after a while, want 1", n)
		}
	})
}

// TestKeepWaitsWhileBusy: a server that asks to wait is not asked because of a change.
func TestKeepWaitsWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desired := make(chan struct{}, 1)
		fails := 1
		calls := keep(t, pace.Keeping{
			Desired: desired, Failed: func(error, time.Duration) {},
			Busy: func(error) time.Duration { return time.Minute },
		}, func() error {
			if fails == 0 {
				return nil
			}
			fails--
			return errors.New("too many requests")
		})
		pace.Signal(desired)
		calls()
		for range 5 {
			pace.Signal(desired)
			pace.Pause(t.Context(), 10*time.Second)
		}
		if n := calls(); n != 0 {
			t.Errorf("%d calls while busy, want none", n)
		}
		pace.Pause(t.Context(), 11*time.Second)
		if n := calls(); n != 1 {
			t.Errorf("%d calls after that, want 1", n)
		}
		pace.Signal(desired)
		if n := calls(); n != 1 {
			t.Errorf("%d calls for a change when not busy, want 1", n)
		}
	})
}

func TestKeepChecksAtTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desired := make(chan struct{}, 1)
		calls := keep(t, pace.Keeping{Desired: desired, Every: time.Minute}, func() error { return nil })
		pace.Signal(desired)
		pace.Pause(t.Context(), time.Hour+time.Second)
		if n := calls(); n != 61 {
			t.Errorf("%d calls in an hour, want one at first and one a minute", n)
		}
	})
}
