package hostfs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// Watcher waits for changes of files and folders of the host. Only one goroutine may use it.
type Watcher struct {
	fs      *fsnotify.Watcher
	errors  <-chan error
	targets []*target
	// folders has the watched folders by their path without symbolic links.
	folders map[string]bool
	// changed is set until Next returns.
	changed bool
}

// NewWatcher watches paths: files, sockets, or folders with their entries but not the folders below
// them. A path and its parent folders need not exist yet, and may disappear and appear again. For a
// symbolic link, it watches the target. The Watcher misses no change after NewWatcher has returned,
// except mounts and unmounts, because the kernel has no events for them.
func NewWatcher(paths ...string) (*Watcher, error) {
	fw, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", strings.Join(paths, ", "), InotifyError(err))
	}
	w := &Watcher{fs: fw, errors: errorsOf(fw), folders: map[string]bool{}, changed: true}
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", p, err), fw.Close())
		}
		w.targets = append(w.targets, &target{path: p, abs: abs})
	}
	if err := w.sync(); err != nil {
		return nil, errors.Join(err, fw.Close())
	}
	return w, nil
}

// errorsOf receives the errors of fw at once, because fsnotify holds its lock while it delivers an
// error, and the user of the Watcher may wait for that lock. The channel is closed after fw.
func errorsOf(fw *fsnotify.Watcher) <-chan error {
	out := make(chan error, 1)
	go func() {
		defer close(out)
		for err := range fw.Errors {
			if errors.Is(err, unix.EINVAL) {
				// A folder was moved and removed, and the kernel removed its watch before fsnotify
				// did. The removal also causes an event.
				continue
			}
			select {
			case out <- err:
			default: // the error that waits causes a check of everything
			}
		}
	}()
	return out
}

// Close ends the watch. It does not wait for the kernel (see EndInotify).
func (w *Watcher) Close() error {
	for dir := range maps.Clone(w.folders) {
		w.unwatch(dir)
	}
	time.AfterFunc(closeAfter, func() {
		if w.fs.Close() != nil {
			return
		}
		for range w.errors { // discard errors until the channel is closed
		}
	})
	return nil
}

// String returns the watched paths.
func (w *Watcher) String() string {
	paths := make([]string, len(w.targets))
	for i, t := range w.targets {
		paths[i] = t.path
	}
	return strings.Join(paths, ", ")
}

// Next waits until something may have changed at one of the paths: created, removed, replaced or
// written. It may return without a change, but misses none. The first call returns at once.
func (w *Watcher) Next(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.changed {
			w.changed = false
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev, ok := <-w.fs.Events:
			if !ok {
				return fmt.Errorf("watch %s: %w", w, os.ErrClosed)
			}
			if err := w.handle(ev); err != nil {
				return err
			}
		case err, ok := <-w.errors:
			if !ok {
				return fmt.Errorf("watch %s: %w", w, os.ErrClosed)
			}
			if err := w.overflow(err); err != nil {
				return err
			}
		}
	}
}

// maxBatch is the largest number of events that count as one change, so that a process that writes
// without pause cannot hide other changes or the end of ctx.
const maxBatch = 1024

// handle applies ev, and all further events that are ready, to the targets.
func (w *Watcher) handle(ev fsnotify.Event) error {
	moved := w.record(ev)
	more := true
	for n := 0; more && n < maxBatch; n++ {
		select {
		case ev, more = <-w.fs.Events:
			moved = more && w.record(ev) || moved
		default:
			more = false
		}
	}
	if moved {
		return w.sync()
	}
	return nil
}

// record records whether ev concerns a target, and returns whether a target, or a folder on the way
// to it, may be a different one now.
func (w *Watcher) record(ev fsnotify.Event) (moved bool) {
	// fsnotify reports "//run" for /run.
	name := filepath.Clean(ev.Name)
	gone := ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	if gone {
		w.forget(name)
	}
	for _, t := range w.targets {
		c, m := t.affectedBy(name, gone, ev.Has(fsnotify.Create))
		w.changed, moved = w.changed || c, moved || m
	}
	return moved
}

// forget ends the watches at and below a removed folder. If a folder appears at the path, it is a
// different one, even with the same inode number.
func (w *Watcher) forget(name string) {
	for dir := range maps.Clone(w.folders) {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			w.unwatch(dir)
		}
	}
}

func (w *Watcher) unwatch(dir string) {
	// It fails if the kernel has already removed the watch.
	_ = w.fs.Remove(dir)
	delete(w.folders, dir)
}

// overflow continues after the kernel dropped events. Everything may have changed.
func (w *Watcher) overflow(err error) error {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		return fmt.Errorf("watch %s: %w", w, err)
	}
	for dir := range maps.Clone(w.folders) {
		w.unwatch(dir)
	}
	w.changed = true
	return w.sync()
}

// sync watches the existing folders on the way to each target. It repeats this until no further
// folder appears meanwhile.
func (w *Watcher) sync() error {
	list := w.fs.WatchList()
	for dir := range maps.Clone(w.folders) {
		if !slices.Contains(list, dir) {
			delete(w.folders, dir)
		}
	}
	for again := true; again; {
		need := map[string]bool{}
		for _, t := range w.targets {
			t.resolve()
			if err := watchable(t.path, t.deepest()); err != nil {
				return err
			}
			for _, dir := range t.chain {
				need[dir] = need[dir] || dir == t.deepest()
			}
		}
		for dir := range maps.Clone(w.folders) {
			if _, ok := need[dir]; !ok {
				w.unwatch(dir)
			}
		}
		var err error
		if again, err = w.watch(need); err != nil {
			return err
		}
	}
	return nil
}

// watch adds the folders that are not watched yet, and reports whether there were any. The value in
// need says whether a failure is an error. It is not an error for a folder further up. If such a
// folder is not watched, its replacement is not noticed.
func (w *Watcher) watch(need map[string]bool) (added bool, err error) {
	for dir, must := range need {
		if w.folders[dir] {
			continue
		}
		err := w.fs.Add(dir)
		switch {
		case err == nil:
			w.folders[dir] = true
			added = true
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
			// The folder was removed a moment ago.
			added = true
		case errors.Is(err, os.ErrPermission) && !must:
		default:
			return false, fmt.Errorf("watch folder %s: %w", dir, InotifyError(err))
		}
	}
	return added, nil
}
