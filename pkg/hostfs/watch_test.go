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

	"outrigger.dev/pkg/hostfs"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 20 * time.Second

func TestWatcherReportsEachSocketOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plugins", "kubelet.sock")
	w, err := hostfs.NewWatcher(path)
	must(t, err)
	defer w.Close()
	if got := next(t, w); len(got) != 0 {
		t.Fatalf("first report: want none, got %v", got)
	}
	must(t, os.Mkdir(filepath.Dir(path), 0o755))
	created := 0
	for round := range 20 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
		must(t, err)
		for created == round {
			if next(t, w)[path].Has(hostfs.Created) {
				created++
			}
		}
		must(t, l.Close())
	}
	// A last entry beside it proves that nothing more was on its way.
	for op := hostfs.Op(0); !op.Has(hostfs.Removed); {
		op = next(t, w)[path]
		if op.Has(hostfs.Created) {
			created++
		}
	}
	if created != 20 {
		t.Errorf("want 20 reports of a created socket, got %d", created)
	}
}

// TestWatcherLosesNothing creates and removes a tree as fast as it can, and asks
// that the last state is always reported.
func TestWatcherLosesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "file")
	w, err := hostfs.NewWatcher(path)
	must(t, err)
	defer w.Close()
	next(t, w)
	for round := range 200 {
		exists := round%2 == 0
		if exists {
			mkdir("a/b")(t, dir)
			put("a/b/file")(t, dir)
		} else {
			remove("a")(t, dir)
		}
		want := hostfs.Removed
		if exists {
			want = hostfs.Created
		}
		for !next(t, w)[path].Has(want) {
		}
	}
}

// TestWatcherOutlivesFoldersThatAreMovedAndRemoved takes folders away in the way
// in which the kernel has forgotten their watches before anyone can end them.
func TestWatcherOutlivesFoldersThatAreMovedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b")
	w, err := hostfs.NewWatcher(path)
	must(t, err)
	next(t, w)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 300 {
			must(t, os.MkdirAll(path, 0o755))
			for !next(t, w)[path].Has(hostfs.Created) {
			}
			must(t, os.Rename(path, filepath.Join(dir, "old")))
			must(t, os.Remove(filepath.Join(dir, "old")))
			for !next(t, w)[path].Has(hostfs.Removed) {
			}
		}
	}()
	select {
	case <-ended:
		must(t, w.Close())
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
	if err := hostfs.Watchable(filepath.Join(t.TempDir(), "not", "there")); err != nil {
		t.Errorf("Watchable of a folder that may come: %v", err)
	}
}

func TestWatcherEnds(t *testing.T) {
	w, err := hostfs.NewWatcher(t.TempDir())
	must(t, err)
	next(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
	must(t, w.Close())
	if _, err := w.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: want os.ErrClosed, got %v", err)
	}
}

func TestOpString(t *testing.T) {
	op := hostfs.Created | hostfs.Removed | hostfs.Written
	if got, want := op.String(), "created+removed+written"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

// TestWatcherOverflow makes more events than the kernel keeps.
func TestWatcherOverflow(t *testing.T) {
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	must(t, err)
	dir := t.TempDir()
	mkdir("a/b")(t, dir)
	path := filepath.Join(dir, "a/b")
	file := filepath.Join(dir, "a/b/file")
	other := filepath.Join(dir, "other")
	put("other")(t, dir)
	w, err := hostfs.NewWatcher(path, file, other)
	must(t, err)
	defer w.Close()
	next(t, w)
	// What fsnotify has read already comes on top of what the kernel keeps.
	for i := range limit/2 + 5000 {
		name := filepath.Join(path, strconv.Itoa(i))
		must(t, os.Symlink("x", name))
		must(t, os.Remove(name))
	}
	// These are among the events that were dropped.
	remove("a")(t, dir)
	mkdir("a/b")(t, dir)
	link("/dev/null", "a/b/file")(t, dir)
	got := map[string]hostfs.Op{}
	for !got[file].Has(hostfs.Created) || !got[other].Has(hostfs.Removed|hostfs.Created) {
		// The other file may have been replaced by one with its inode number.
		for path, op := range next(t, w) {
			got[path] |= op
		}
	}
	// The watch is on the new folder.
	remove("a/b/file")(t, dir)
	for !next(t, w)[file].Has(hostfs.Removed) {
	}
}
