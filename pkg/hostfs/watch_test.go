package hostfs_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 5 * time.Minute

func TestWatcherReportsEachSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plugins", "kubelet.sock")
	w, err := hostfs.NewWatcher(path)
	assert.NilError(t, err)
	defer w.Close()
	next(t, w)
	assert.NilError(t, os.Mkdir(filepath.Dir(path), 0o755))
	for range mostLeft {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		assert.NilError(t, err)
		next(t, w)
		assert.NilError(t, l.Close())
		next(t, w)
	}
}

// TestWatcherLosesNothing creates and removes a tree as fast as it can.
func TestWatcherLosesNothing(t *testing.T) {
	dir := t.TempDir()
	w, err := hostfs.NewWatcher(filepath.Join(dir, "a", "b", "file"))
	assert.NilError(t, err)
	defer w.Close()
	next(t, w)
	for range 100 {
		mkdir("a/b")(t, dir)
		put("a/b/file")(t, dir)
		next(t, w)
		remove("a")(t, dir)
		next(t, w)
	}
}

// TestWatcherStaysQuiet holds what does not concern the path.
func TestWatcherStaysQuiet(t *testing.T) {
	dir := t.TempDir()
	mkdir("a/b/c")(t, dir)
	w, err := hostfs.NewWatcher(filepath.Join(dir, "a/b/file"), filepath.Join(dir, "end"))
	assert.NilError(t, err)
	defer w.Close()
	next(t, w)
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	reports := 0
	go func() {
		defer close(ended)
		for w.Next(ctx) == nil {
			if reports++; exists(filepath.Join(dir, "end")) {
				return
			}
		}
	}()
	all(put("a/b/other"), put("a/beside"), put("beside"), put("a/b/c/file"), remove("a/b/other"), rename("beside", "moved"), mkdir("x"))(t, dir)
	put("end")(t, dir)
	select {
	case <-ended:
	case <-time.After(patience):
		cancel()
		<-ended
		t.Fatal("no report of the last change")
	}
	cancel()
	if reports != 1 {
		t.Errorf("%d reports, want one of the last change", reports)
	}
}

// TestWatcherOutlivesFoldersThatAreMovedAndRemoved takes folders away in the way
// in which the kernel has forgotten their watches before anyone can end them.
func TestWatcherOutlivesFoldersThatAreMovedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	w, err := hostfs.NewWatcher(path)
	assert.NilError(t, err)
	next(t, w)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 300 {
			assert.Check(t, os.MkdirAll(path, 0o755))
			next(t, w)
			assert.Check(t, os.Rename(path, filepath.Join(dir, "old")))
			assert.Check(t, os.Remove(filepath.Join(dir, "old")))
			next(t, w)
		}
	}()
	select {
	case <-ended:
		assert.NilError(t, w.Close())
	case <-time.After(2 * patience):
		t.Fatal("the watcher does not go on")
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	calls := 0
	hostfs.Watch(ctx, discard(), func() {
		if calls++; calls == 1 {
			link("/dev/null", "file")(t, dir)
			return
		}
		cancel()
	}, path)
	if calls != 2 {
		t.Errorf("%d calls, want one at the start and one for the change", calls)
	}
}

func TestWatcherRejectsKernelFileSystems(t *testing.T) {
	for _, path := range []string{"/proc/driver/nvidia/version", "/sys/bus/pci/devices"} {
		if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); err != nil {
			t.Fatalf("this test needs %s: %v", path, err)
		}
		_, err := hostfs.NewWatcher(path)
		if !errors.Is(err, hostfs.ErrUnwatchable) {
			t.Errorf("watch of %s: want ErrUnwatchable, got %v", path, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		calls := 0
		hostfs.Watch(ctx, discard(), func() { calls++; cancel() }, path)
		if calls != 1 {
			t.Errorf("Watch of %s: %d calls, want that it polls", path, calls)
		}
		if err := hostfs.Watchable(path); !errors.Is(err, hostfs.ErrUnwatchable) {
			t.Errorf("Watchable(%s): want ErrUnwatchable, got %v", path, err)
		}
	}
	assert.NilError(t, hostfs.Watchable(filepath.Join(t.TempDir(), "not", "there")), "Watchable of a folder that may come")
}

func TestWatcherEnds(t *testing.T) {
	w, err := hostfs.NewWatcher(t.TempDir())
	assert.NilError(t, err)
	next(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, w.Next(ctx), context.Canceled)
	assert.NilError(t, w.Close())
	assert.ErrorIs(t, w.Next(t.Context()), os.ErrClosed)
}

// TestWatcherOverflow makes more events than the kernel keeps.
func TestWatcherOverflow(t *testing.T) {
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	assert.NilError(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	assert.NilError(t, err)
	dir := t.TempDir()
	mkdir("a/b")(t, dir)
	file := filepath.Join(dir, "a/b/file")
	w, err := hostfs.NewWatcher(file)
	assert.NilError(t, err)
	defer w.Close()
	next(t, w)
	// What fsnotify has read already comes on top of what the kernel keeps.
	for i := range limit/2 + 5000 {
		name := filepath.Join(dir, "a/b", strconv.Itoa(i))
		assert.NilError(t, os.Symlink("x", name))
		assert.NilError(t, os.Remove(name))
	}
	// These are among the events that were dropped.
	remove("a")(t, dir)
	mkdir("a/b")(t, dir)
	link("/dev/null", "a/b/file")(t, dir)
	next(t, w)
	// The watch is on the new folder.
	goesOn(t, w, file)
}
