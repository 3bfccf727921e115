package observe

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// counter is a Preparer that counts, of which another preparation has another
// result while it is outdated.
type counter struct {
	mu              sync.Mutex
	scans, asked    int
	outdated, equal bool
	watched         []string
}

func (c *counter) Scan(int) func(*gpu.Node) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scans++
	c.outdated = false
	n := c.scans
	if c.equal {
		n = 0
	}
	return func(*gpu.Node) (int, error) { return n, nil }
}

func (c *counter) Outdated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.outdated
}

func (c *counter) Watched() []string { return c.watched }

func (c *counter) change() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outdated = true
}

func (c *counter) counts() (scans, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scans, c.asked
}

// observed runs an Observer with the Preparer until the test ends, and returns
// what each refresh has prepared.
func observed(t *testing.T, c *counter, change func(*Observer[int, int])) (*gputest.Fake, <-chan int) {
	source := gputest.New(gputest.Node(gputest.H100, 1))
	o := New(Config[int, int]{
		Source: source, Preparer: c, Log: slog.New(slog.DiscardHandler),
		WatchChanges: func(ctx context.Context, changed func()) error { changed(); <-ctx.Done(); return nil },
	})
	if change != nil {
		change(o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	prepared := make(chan int, 1000)
	var done sync.WaitGroup
	done.Go(func() {
		if err := o.Run(ctx); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case obs := <-o.Observations():
				prepared <- obs.Prepared
			case <-o.Events():
			case <-o.Hangs():
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return source, prepared
}

func within(t *testing.T, prepared <-chan int, want int) {
	t.Helper()
	select {
	case got := <-prepared:
		if got != want {
			t.Fatalf("prepared is %d, want %d", got, want)
		}
	case <-time.After(30 * time.Second): // before the recheck
		t.Fatalf("no refresh in which %d is prepared", want)
	}
}

func TestAChangeOfAPathIsNoticedWithoutACallOfTheDriver(t *testing.T) {
	dir := t.TempDir()
	c := &counter{watched: []string{dir}}
	source, prepared := observed(t, c, nil)
	within(t, prepared, 1)
	for want := 2; want < 5; want++ {
		before := source.Calls().Snapshot
		c.change()
		assert.NilError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
		within(t, prepared, want)
		if n := source.Calls().Snapshot - before; n > 0 {
			t.Errorf("the driver was read %d times, want none", n)
		}
		assert.NilError(t, os.Remove(filepath.Join(dir, "file")))
	}
}

func TestNothingIsCheckedForAPreparerWithoutPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{outdated: true}
		_, prepared := observed(t, c, nil)
		within(t, prepared, 1)
		<-time.After(24 * time.Hour)
		if scans, asked := c.counts(); scans != 1 || asked > 0 {
			t.Errorf("%d scans and %d checks in a day, want one scan and no check", scans, asked)
		}
	})
}

// watching is a watch that reports nothing after its begin, as inotify reports no
// mounts.
func watching(ctx context.Context, changed func(), _ ...string) error {
	changed()
	<-ctx.Done()
	return nil
}

func TestPathsAreRecheckedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{watched: []string{"folder"}}
		_, prepared := observed(t, c, func(o *Observer[int, int]) { o.paths.entries = watching })
		within(t, prepared, 1)
		<-time.After(time.Hour)
		if _, asked := c.counts(); asked < 59 || asked > 61 {
			t.Errorf("%d checks in an hour, want one a minute", asked)
		}
		c.change()
		<-time.After(2 * recheck)
		if scans, _ := c.counts(); scans != 2 {
			t.Errorf("%d scans after a change that the watch does not report, want 2", scans)
		}
	})
}

func TestPathsThatCannotBeWatchedArePolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{watched: []string{"folder"}, equal: true}
		var mu sync.Mutex
		begun, full := 0, true
		_, prepared := observed(t, c, func(o *Observer[int, int]) {
			o.paths.entries = func(ctx context.Context, changed func(), _ ...string) error {
				mu.Lock()
				begun++
				fail := full
				mu.Unlock()
				if fail {
					return errors.New("too many open files")
				}
				return watching(ctx, changed)
			}
		})
		within(t, prepared, 0)
		<-time.After(time.Minute)
		if _, asked := c.counts(); asked < 29 || asked > 32 {
			t.Errorf("%d checks in a minute without a watch, want one every %s", asked, poll)
		}
		mu.Lock()
		full = false
		mu.Unlock()
		<-time.After(2 * poll)
		mu.Lock()
		before := begun
		mu.Unlock()
		_, asked := c.counts()
		<-time.After(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		if _, now := c.counts(); begun != before || now-asked > 62 {
			t.Errorf("%d more watches and %d checks in an hour once there is a watch, want none and one a minute", begun-before, now-asked)
		}
	})
}

// An installer that works for minutes costs ever less.
func TestPathsThatChangeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{watched: []string{"folder"}, equal: true}
		_, prepared := observed(t, c, func(o *Observer[int, int]) {
			o.paths.entries = func(ctx context.Context, changed func(), _ ...string) error {
				for ctx.Err() == nil {
					c.change()
					changed()
					<-time.After(10 * time.Millisecond)
				}
				return nil
			}
		})
		within(t, prepared, 0)
		<-time.After(time.Minute)
		if scans, _ := c.counts(); scans < 25 || scans > 40 {
			t.Errorf("%d scans in a minute of changes, want some 30", scans)
		}
		if n := len(prepared); n > 0 {
			t.Errorf("%d refreshes without another result, want none", n)
		}
	})
}
