package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/observe"
)

type observation = observe.Observation[int, string]

// preparer counts what it prepares, and fails while err is set.
type preparer struct {
	observe.Unprepared[int, string]
	err      atomic.Pointer[error]
	prepared atomic.Int32
}

func (p *preparer) Scan(w int) func(*gpu.Node) (string, error) {
	return func(n *gpu.Node) (string, error) {
		p.prepared.Add(1)
		if err := p.err.Load(); err != nil {
			return "", *err
		}
		return fmt.Sprintf("%d for %d GPUs", w, len(n.GPUs)), nil
	}
}

// rig is an Observer of a fake node in the bubble of a synctest. Its receiver takes what
// comes and remembers it.
type rig struct {
	t        *testing.T
	source   *gputest.Fake
	preparer *preparer
	observer *observe.Observer[int, string]
	// watching counts the running calls of WatchChanges, and change makes each call
	// changed.
	watching atomic.Int32
	change   chan struct{}
	ended    chan error

	mu     sync.Mutex
	seen   []observation
	events []gpu.Event
	hangs  []error
}

func newRig(t *testing.T, wrap func(gpu.Source) gpu.Source) *rig {
	t.Helper()
	r := &rig{
		t: t, source: gputest.New(gputest.Node(gputest.A100, 2)), preparer: &preparer{},
		change: make(chan struct{}), ended: make(chan error, 1),
	}
	var source gpu.Source = r.source
	if wrap != nil {
		source = wrap(source)
	}
	r.observer = observe.New(observe.Config[int, string]{
		Source: source, Preparer: r.preparer, Desired: 1, Log: slog.New(slog.DiscardHandler),
		WatchChanges: func(ctx context.Context, changed func()) error {
			r.watching.Add(1)
			defer r.watching.Add(-1)
			for {
				changed()
				select {
				case <-ctx.Done():
					return nil
				case <-r.change:
				}
			}
		},
	})
	return r
}

// run runs the observer and its receiver until the test ends.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	go func() { r.ended <- r.observer.Run(ctx) }()
	received := make(chan struct{})
	go func() {
		defer close(received)
		for {
			select {
			case <-ctx.Done():
				return
			case obs := <-r.observer.Observations():
				r.locked(func() { r.seen = append(r.seen, obs) })
			case ev := <-r.observer.Events():
				r.locked(func() { r.events = append(r.events, ev) })
			case err := <-r.observer.Hangs():
				r.locked(func() { r.hangs = append(r.hangs, err) })
			}
		}
	}()
	r.t.Cleanup(func() {
		cancel()
		<-received
		if err := <-r.ended; err != nil {
			r.t.Errorf("Run() = %v", err)
		}
	})
}

func (r *rig) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// last returns the newest observation once nothing happens any more, and how many there
// were.
func (r *rig) last() (observation, int) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		r.t.Fatal("nothing was observed")
	}
	return r.seen[len(r.seen)-1], len(r.seen)
}

func TestTheFirstRefreshFollowsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		obs, n := r.last()
		if n != 1 || obs.Err != nil || len(obs.Node.GPUs) != 2 || obs.Prepared != "1 for 2 GPUs" {
			t.Errorf("%d observations, the last %+v; want one of 2 GPUs", n, obs)
		}
		if calls := r.source.Calls(); calls.Snapshot != 1 || calls.Watch != 1 {
			t.Errorf("calls %+v, want one of each", calls)
		}
		if len(r.events) != 0 {
			t.Errorf("events %v, want none: the one by which a watch begins is not passed on", r.events)
		}
		r.source.PostXID(obs.Node.GPUs[0].UUID, 48)
		r.last()
		if len(r.events) != 1 || r.events[0].XID != 48 {
			t.Errorf("events %v, want the XID", r.events)
		}
	})
}

// files is a Preparer that reads a count of files.
type files struct {
	preparer

	count, scanned atomic.Int32
}

func (f *files) Scan(int) func(*gpu.Node) (string, error) {
	count := f.count.Load()
	f.scanned.Store(count)
	return func(*gpu.Node) (string, error) { return fmt.Sprintf("%d files", count), nil }
}

func (f *files) Outdated() bool { return f.scanned.Load() != f.count.Load() }

// late is a source that another agent has claimed at first, and whose files appear while it
// waits for that agent.
type late struct {
	gpu.Source

	files *files
	asked bool
}

func (l *late) Snapshot(ctx context.Context) (*gpu.Node, error) {
	if !l.asked {
		l.asked = true
		return nil, errors.New("claimed")
	}
	<-time.After(100 * time.Millisecond) // the files are read meanwhile
	l.files.count.Store(2)
	return l.Source.Snapshot(ctx)
}

func TestWhatWasReadBeforeTheNodeIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &files{}
		f.count.Store(1)
		observer := observe.New(observe.Config[int, string]{
			Source: &late{Source: gputest.New(gputest.Node(gputest.A100, 2)), files: f}, Preparer: f, Log: slog.New(slog.DiscardHandler),
			WatchChanges: func(ctx context.Context, changed func()) error { changed(); <-ctx.Done(); return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- observer.Run(ctx) }()
		if obs := <-observer.Observations(); obs.Err == nil {
			t.Errorf("the first observation is %+v, want that the driver is claimed", obs)
		}
		if obs := <-observer.Observations(); obs.Err != nil || obs.Prepared != "2 files" {
			t.Errorf("the second observation is %+v, want the 2 files that are there with the node", obs)
		}
		cancel()
		assert.NilError(t, <-ended)
	})
}

func TestAtRestNothingIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		r.last()
		<-time.After(24 * time.Hour)
		if calls := r.source.Calls(); calls.Snapshot != 1 || calls.Watch != 1 || r.preparer.prepared.Load() != 1 || r.watching.Load() != 0 {
			t.Errorf("after a day: calls %+v, %d times prepared, %d watches of changes", calls, r.preparer.prepared.Load(), r.watching.Load())
		}
	})
}

func TestPreparesOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		r.last()
		prepared := func(what string, want int32) {
			t.Helper()
			if obs, _ := r.last(); r.preparer.prepared.Load() != want || obs.Err != nil {
				t.Errorf("%s: prepared %d times, want %d; %v", what, r.preparer.prepared.Load(), want, obs.Err)
			}
		}
		r.observer.Refresh()
		prepared("a refresh of the same node", 1)
		r.observer.Reload()
		prepared("a reload of the same node", 2)
		r.source.SetNode(gputest.Node(gputest.A100, 3))
		r.observer.Refresh()
		prepared("another node", 3)
		r.observer.Configure(7)
		prepared("another config", 4)
		if obs, _ := r.last(); obs.Desired != 7 || obs.Prepared != "7 for 3 GPUs" {
			t.Errorf("the last observation is %+v", obs)
		}
	})
}

func TestWhatFailsIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		full := errors.New("no space left on device")
		r.preparer.err.Store(&full)
		r.run()
		obs, _ := r.last()
		if !errors.Is(obs.Err, full) || obs.Node == nil {
			t.Errorf("observed %+v, want the node and the error", obs)
		}
		if r.watching.Load() != 1 {
			t.Errorf("%d watches of changes while it fails, want 1", r.watching.Load())
		}
		<-time.After(time.Hour)
		_, before := r.last()
		if before < 360 || before > 370 {
			t.Errorf("%d attempts in an hour of failures, want one every 10 s", before)
		}
		if n := r.source.Calls().Snapshot; n != 2 {
			t.Errorf("the driver was asked %d times, want twice: a watch of changes begins with one", n)
		}
		r.preparer.err.Store(nil)
		r.change <- struct{}{}
		<-time.After(time.Second)
		if obs, n := r.last(); obs.Err != nil || n != before+1 {
			t.Errorf("%d attempts and %v in the second after a change; want one that succeeds", n-before, obs.Err)
		}
		if r.watching.Load() != 0 {
			t.Error("changes are watched although the refresh succeeded")
		}
	})
}

func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		_, before := r.last()
		for range 3 {
			r.source.SetHealth(gpu.ErrHangs)
			<-time.After(time.Minute)
			r.source.SetHealth(nil)
			<-time.After(time.Minute)
		}
		_, n := r.last()
		if len(r.hangs) != 6 {
			t.Fatalf("hangs %v, want 3 times an error and nil", r.hangs)
		}
		for i, err := range r.hangs {
			if errors.Is(err, gpu.ErrHangs) != (i%2 == 0) {
				t.Errorf("hang %d is %v", i, err)
			}
		}
		if n != before+3 {
			t.Errorf("%d refreshes after 3 hangs, want one after each", n-before)
		}
	})
}

// replaced is a driver that is another one from the second snapshot on.
type replaced struct {
	gpu.Source
	reads atomic.Int32
}

func (s *replaced) Snapshot(ctx context.Context) (*gpu.Node, error) {
	if s.reads.Add(1) > 1 {
		return nil, fmt.Errorf("load NVML: %w", errors.Join(gpu.ErrDriverChanged, gpu.ErrNoDriver))
	}
	return s.Source.Snapshot(ctx)
}

func TestAReplacedDriverEndsTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(s gpu.Source) gpu.Source { return &replaced{Source: s} })
		ended := make(chan error, 1)
		go func() { ended <- r.observer.Run(t.Context()) }()
		<-r.observer.Observations()
		r.observer.Refresh()
		assert.ErrorIs(t, <-ended, gpu.ErrDriverChanged)
	})
}

// stuck is a driver whose calls do not return before their context ends.
type stuck struct{ gpu.Source }

func (stuck) Snapshot(ctx context.Context) (*gpu.Node, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunEndsWhateverItWaitsFor(t *testing.T) {
	for name, wrap := range map[string]func(gpu.Source) gpu.Source{
		"a driver that does not return": func(s gpu.Source) gpu.Source { return stuck{s} },
		"a receiver":                    func(s gpu.Source) gpu.Source { return s },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, wrap)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.observer.Run(ctx) }()
				synctest.Wait()
				start := time.Now()
				cancel()
				assert.NilError(t, <-ended)
				if took := time.Since(start); took > 0 {
					t.Errorf("it took %v to end", took)
				}
			})
		})
	}
}

// TestConcurrentUse has many goroutines request refreshes. The last config wins.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.run()
		var asking sync.WaitGroup
		for g := range 8 {
			asking.Go(func() {
				for i := range 100 {
					switch (g + i) % 4 {
					case 0:
						r.observer.Refresh()
					case 1:
						r.observer.Reload()
					case 2:
						r.observer.Configure(i)
					default:
						r.source.Post(gpu.NodeEvent(gpu.EventTopologyChanged))
					}
				}
			})
		}
		asking.Wait()
		r.observer.Configure(1000)
		if obs, _ := r.last(); obs.Desired != 1000 || obs.Prepared != "1000 for 2 GPUs" || r.observer.Desired() != 1000 {
			t.Errorf("the last observation is %+v, want that of the last config", obs)
		}
	})
}
