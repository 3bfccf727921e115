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

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// Watcher tells of changes to files and folders of the host. It is used from
// one goroutine.
type Watcher struct {
	fs      *fsnotify.Watcher
	errors  <-chan error
	targets []*target
	// folders are watched now, by their real path.
	folders map[string]bool
	// primed is false until the first report.
	primed bool
}

// NewWatcher watches paths: a file or socket, or a folder with its entries (not
// the folders below it). A path, and the folders on the way to it, need not
// exist yet, and may go and come again. A symbolic link stands for what it leads
// to. What happens after NewWatcher has returned is not missed; only mounts and
// unmounts the kernel does not tell of.
func NewWatcher(paths ...string) (*Watcher, error) {
	fw, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", strings.Join(paths, ", "), InotifyError(err))
	}
	w := &Watcher{fs: fw, errors: errorsOf(fw), folders: map[string]bool{}}
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

// errorsOf takes the errors of fw at once, whatever its user does: fsnotify holds
// its lock while it waits for one to be taken, and the user may wait for the
// lock. The channel is closed after fw.
func errorsOf(fw *fsnotify.Watcher) <-chan error {
	out := make(chan error, 1)
	go func() {
		defer close(out)
		for err := range fw.Errors {
			if errors.Is(err, unix.EINVAL) {
				// A folder was moved and removed, and the kernel has dropped
				// its watch before fsnotify could. The event is told as well.
				continue
			}
			select {
			case out <- err:
			default: // after the one that waits, everything is looked at again
			}
		}
	}()
	return out
}

// Close ends the watch.
func (w *Watcher) Close() error {
	if err := w.fs.Close(); err != nil {
		return err
	}
	for range w.errors { // until it is closed
	}
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

// Next waits for changes and returns them, those of one path in one. The first
// call returns at once, with Created for each path that exists.
func (w *Watcher) Next(ctx context.Context) ([]Change, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if changes := w.take(); len(changes) > 0 || !w.primed {
			w.primed = true
			return changes, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case ev, ok := <-w.fs.Events:
			if !ok {
				return nil, fmt.Errorf("watch %s: %w", w, os.ErrClosed)
			}
			if err := w.handle(ev); err != nil {
				return nil, err
			}
		case err, ok := <-w.errors:
			if !ok {
				return nil, fmt.Errorf("watch %s: %w", w, os.ErrClosed)
			}
			if err := w.overflow(err); err != nil {
				return nil, err
			}
		}
	}
}

// take returns the changes collected so far.
func (w *Watcher) take() []Change {
	var changes []Change
	for _, t := range w.targets {
		if t.op != 0 {
			changes = append(changes, Change{Path: t.path, Op: t.op})
			t.op = 0
		}
	}
	return changes
}

// maxBatch bounds the events that are taken as one change: who writes without
// pause must not keep the others' changes, or the end of ctx, from being seen.
const maxBatch = 1024

// handle notes what ev and the events that lie ready mean for the targets.
func (w *Watcher) handle(ev fsnotify.Event) error {
	moved := w.note(ev)
	more := true
	for n := 0; more && n < maxBatch; n++ {
		select {
		case ev, more = <-w.fs.Events:
			moved = more && w.note(ev) || moved
		default:
			more = false
		}
	}
	if moved {
		return w.sync()
	}
	return nil
}

// note marks the targets that ev concerns, and returns whether one of them, or a
// folder on the way to it, may have come or gone.
func (w *Watcher) note(ev fsnotify.Event) (moved bool) {
	// fsnotify says "//run" for /run.
	name := filepath.Clean(ev.Name)
	gone := ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	if gone {
		w.forget(name)
	}
	for _, t := range w.targets {
		moved = t.note(name, gone, ev.Has(fsnotify.Create)) || moved
	}
	return moved
}

// forget ends the watches at and below a folder that has gone. What is there
// now, or later, is another folder even if it gets the same inode number.
func (w *Watcher) forget(name string) {
	for dir := range maps.Clone(w.folders) {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			w.unwatch(dir)
		}
	}
}

func (w *Watcher) unwatch(dir string) {
	// The error is that the kernel has dropped the watch already.
	_ = w.fs.Remove(dir)
	delete(w.folders, dir)
}

// overflow goes on after the kernel dropped events: everything may have changed.
func (w *Watcher) overflow(err error) error {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		return fmt.Errorf("watch %s: %w", w, err)
	}
	for dir := range maps.Clone(w.folders) {
		w.unwatch(dir)
	}
	for _, t := range w.targets {
		t.gone()
		t.op |= Written
	}
	return w.sync()
}

// sync watches the folders that exist now on the way to each target, until no
// further one has appeared meanwhile, and compares the targets with what was
// there before.
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
	for _, t := range w.targets {
		t.compare()
	}
	return nil
}

// watch adds the folders that are not watched yet, and returns whether there
// were any. The value in need says whether it must be possible; further up it
// need not, and the folder's own replacement is then not seen.
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
			// It went this moment.
			added = true
		case errors.Is(err, os.ErrPermission) && !must:
		default:
			return false, fmt.Errorf("watch folder %s: %w", dir, InotifyError(err))
		}
	}
	return added, nil
}
