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
	"syscall"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// ErrUnwatchable is returned for a path on procfs or sysfs: the kernel changes
// files there without telling inotify.
var ErrUnwatchable = errors.New("inotify does not see changes on procfs and sysfs")

// Op says what happened to a path; several may be set.
type Op uint8

// The values of Op.
const (
	// Created: the path exists and did not before, or is another file now.
	Created Op = 1 << iota
	// Removed: the file that was at the path has gone. With Created set too,
	// there is a new one already.
	Removed
	// Written: content or attributes have changed, or, for a folder, its
	// entries.
	Written
)

// Has reports whether all of o are set.
func (op Op) Has(o Op) bool { return op&o == o }

func (op Op) String() string {
	var words []string
	for _, w := range []struct {
		op   Op
		word string
	}{{Created, "created"}, {Removed, "removed"}, {Written, "written"}} {
		if op.Has(w.op) {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, "+")
}

// Change is what happened to one watched path since the last report.
type Change struct {
	// Path as it was given to NewWatcher.
	Path string
	Op   Op
}

// Watch calls changed from the caller's goroutine, first for the paths that
// exist, and then for each change, until ctx ends; then it returns nil. An error
// of changed ends it too. See NewWatcher for what can be watched.
func Watch(ctx context.Context, changed func([]Change) error, paths ...string) error {
	w, err := NewWatcher(paths...)
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // nothing was written through it
	for {
		changes, err := w.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := changed(changes); err != nil {
			return err
		}
	}
}

// Watcher tells of changes to files and folders of the host. It is used from
// one goroutine.
type Watcher struct {
	fs      *fsnotify.Watcher
	targets []*target
	// folders are watched now, by their real path.
	folders map[string]bool
	// primed is false until the first report.
	primed bool
}

// target is one path that the user watches.
type target struct {
	path string
	// real is the path without symbolic links, as far as it exists.
	real string
	// chain holds the folders on the way, and the target if it is one.
	chain []string
	// id tells the file at the path from a later one; zero if there is none.
	id identity
	op Op
}

type identity struct{ dev, ino uint64 }

// NewWatcher watches paths: a file or socket, or a folder with its entries
// (not the folders below it). A path, and the folders on the way to it, need
// not exist yet, and may go and come again. What happens after NewWatcher has
// returned is not missed.
func NewWatcher(paths ...string) (*Watcher, error) {
	fw, err := fsnotify.NewBufferedWatcher(64)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", strings.Join(paths, ", "), inotifyError(err))
	}
	w := &Watcher{fs: fw, folders: map[string]bool{}}
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", p, err), fw.Close())
		}
		w.targets = append(w.targets, &target{path: p, real: abs})
	}
	if err := w.sync(); err != nil {
		return nil, errors.Join(err, fw.Close())
	}
	for _, t := range w.targets {
		t.op &^= Removed | Written
	}
	return w, nil
}

// Close ends the watch.
func (w *Watcher) Close() error { return w.fs.Close() }

// Next waits for changes and returns them, those of one path in one. The first
// call returns at once, with Created for each path that exists.
func (w *Watcher) Next(ctx context.Context) ([]Change, error) {
	for {
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
		case err, ok := <-w.fs.Errors:
			if !ok {
				return nil, fmt.Errorf("watch %s: %w", w, os.ErrClosed)
			}
			if err := w.recover(err); err != nil {
				return nil, err
			}
		}
	}
}

// String returns the watched paths.
func (w *Watcher) String() string {
	paths := make([]string, len(w.targets))
	for i, t := range w.targets {
		paths[i] = t.path
	}
	return strings.Join(paths, ", ")
}

// take returns the changes collected so far, after those that lie ready.
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

// handle notes what the events that lie ready mean for the targets.
func (w *Watcher) handle(ev fsnotify.Event) error {
	moved := w.note(ev)
	for more := true; more; {
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

// note marks the targets that ev concerns, and returns whether a folder on the
// way to one may have come or gone.
func (w *Watcher) note(ev fsnotify.Event) (moved bool) {
	for _, t := range w.targets {
		switch {
		case ev.Name == t.real:
			moved = true
			switch {
			case ev.Has(fsnotify.Create):
				t.op |= Created
			case ev.Has(fsnotify.Remove), ev.Has(fsnotify.Rename):
				t.op = t.op&^Created | Removed
			default:
				t.op |= Written
			}
		case filepath.Dir(ev.Name) == t.real:
			t.op |= Written
		case slices.Contains(t.chain, ev.Name) || strings.HasPrefix(t.real, ev.Name+"/"):
			moved = moved || !ev.Has(fsnotify.Write) && !ev.Has(fsnotify.Chmod)
		}
	}
	return moved
}

// recover goes on after the kernel dropped events: everything may have changed.
func (w *Watcher) recover(err error) error {
	if !errors.Is(err, fsnotify.ErrEventOverflow) {
		return fmt.Errorf("watch %s: %w", w, err)
	}
	for _, t := range w.targets {
		t.op |= Written
	}
	return w.sync()
}

// sync watches the folders that exist now on the way to each target, until no
// further one has appeared meanwhile, and compares the targets with what was
// there before.
func (w *Watcher) sync() error {
	for {
		need := map[string]bool{}
		for _, t := range w.targets {
			t.resolve()
			for _, dir := range t.chain {
				need[dir] = true
			}
			if err := watchable(t); err != nil {
				return err
			}
		}
		added := false
		for dir := range need {
			if w.folders[dir] && slices.Contains(w.fs.WatchList(), dir) {
				continue
			}
			err := w.fs.Add(dir)
			switch {
			case err == nil:
				w.folders[dir], added = true, true
			case errors.Is(err, os.ErrNotExist):
				added = true
			case errors.Is(err, os.ErrPermission) && !w.deepest(dir):
				// A folder further up: it is seen less well when it is replaced.
				w.folders[dir] = false
			default:
				return fmt.Errorf("watch folder %s: %w", dir, inotifyError(err))
			}
		}
		if !added {
			w.drop(need)
			break
		}
	}
	for _, t := range w.targets {
		t.compare()
	}
	return nil
}

// drop ends the watch of folders that no target needs any more.
func (w *Watcher) drop(need map[string]bool) {
	for dir := range maps.Clone(w.folders) {
		if !need[dir] {
			// It has gone, and the kernel has dropped the watch already.
			_ = w.fs.Remove(dir)
			delete(w.folders, dir)
		}
	}
}

// deepest reports whether dir is where a target is, or would be, created.
func (w *Watcher) deepest(dir string) bool {
	return slices.ContainsFunc(w.targets, func(t *target) bool { return t.chain[len(t.chain)-1] == dir })
}

// resolve follows the target's path as far as it exists.
func (t *target) resolve() {
	abs, _ := filepath.Abs(t.path)
	cur := "/"
	t.chain = []string{cur}
	rest := strings.Split(strings.TrimPrefix(abs, "/"), "/")
	for i, name := range rest {
		next := filepath.Join(cur, name)
		t.real = filepath.Join(append([]string{next}, rest[i+1:]...)...)
		real, err := filepath.EvalSymlinks(next)
		if err != nil {
			return
		}
		fi, err := os.Stat(real)
		if err != nil || !fi.IsDir() {
			return
		}
		cur, t.real = real, filepath.Join(append([]string{real}, rest[i+1:]...)...)
		t.chain = append(t.chain, cur)
	}
}

// compare notes whether another file is at the path than before.
func (t *target) compare() {
	var id identity
	if fi, err := os.Lstat(t.real); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			id = identity{dev: st.Dev, ino: st.Ino}
		}
	}
	if id != t.id {
		if t.id != (identity{}) {
			t.op |= Removed
		}
		if id != (identity{}) {
			t.op |= Created
		} else {
			t.op &^= Created
		}
	}
	t.id = id
}

// watchable refuses file systems on which inotify is silent.
func watchable(t *target) error {
	dir := t.chain[len(t.chain)-1]
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil //nolint:nilerr // it went this moment; the next round sees it
	}
	if st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SYSFS_MAGIC {
		return fmt.Errorf("watch %s: %w: read it when an event tells that it changed", t.path, ErrUnwatchable)
	}
	return nil
}

// inotifyError adds what to do about the limits of inotify.
func inotifyError(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_watches", err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_instances, or the limit of open files", err)
	default:
		return err
	}
}
