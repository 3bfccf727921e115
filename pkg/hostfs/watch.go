package hostfs

import (
	"context"
	"errors"
	"strings"
)

// ErrUnwatchable is returned for a path on procfs or sysfs, where the kernel changes files
// without events for inotify.
var ErrUnwatchable = errors.New("inotify does not see changes on procfs and sysfs")

// Op says what happened to a path. Several values can be set.
type Op uint8

// The values of Op.
const (
	// Created: the path exists and did not exist before, or is another file now.
	Created Op = 1 << iota
	// Removed: the file at the path was removed. If Created is set too, there is a new
	// one already.
	Removed
	// Written: the content or the attributes changed, or the entries of a folder.
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
	// Path as passed to NewWatcher.
	Path string
	Op   Op
}

// Watch calls changed from the caller's goroutine, first for the paths that exist, and then
// for each change. It returns nil when ctx ends, and the error of changed if there is one.
// See NewWatcher for what can be watched.
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
