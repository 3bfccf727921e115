package observe_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/observe"
)

type none struct{}

// run runs an observer of a fake driver until the test ends, and returns what
// its observations say: whether the driver answers.
func run(t *testing.T, source gpu.Source) <-chan bool {
	ended := make(chan struct{})
	o := observe.New(observe.Config[none, none]{
		Source: source, Preparer: observe.Unprepared[none, none]{}, Log: slog.New(slog.DiscardHandler),
		WatchChanges: func(ctx context.Context, changed func()) error {
			changed()
			<-ctx.Done()
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan bool, 100)
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case obs := <-o.Observations():
				answers <- obs.Err == nil
			case <-o.Events():
			case <-o.Hangs():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return answers
}

// until waits for an observation that says so, and returns how long that took.
func until(answers <-chan bool, want bool) time.Duration {
	begin := time.Now()
	for <-answers != want {
	}
	return time.Since(begin)
}

func TestADriverIsMissedSoonHoweverOftenItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := gputest.New(gputest.Node(gputest.H100, 1))
		answers := run(t, source)
		until(answers, true)
		for round := range 50 {
			source.SetDriver(false)
			if took := until(answers, false); took > time.Second {
				t.Fatalf("round %d: the driver was missed after %s, want at most a second", round, took)
			}
			source.SetDriver(true)
			until(answers, true)
		}
	})
}

// fickle is a driver that answers, and that ends each watch at once.
type fickle struct {
	*gputest.Fake
	watches atomic.Int32
}

func (f *fickle) Watch(_ context.Context, deliver func(gpu.Event)) error {
	f.watches.Add(1)
	deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	return errors.New("wait for events: unknown error")
}

func TestWatchesThatEndAreGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fickle{Fake: gputest.New(gputest.Node(gputest.H100, 1))}
		until(run(t, source), true)
		<-time.After(time.Minute)
		if n := source.watches.Load(); n < 5 || n > 20 {
			t.Errorf("events were asked for %d times in a minute, want some times, and ever fewer", n)
		}
	})
}
