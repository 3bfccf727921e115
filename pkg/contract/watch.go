package contract

import (
	"context"
	"maps"
	"path/filepath"
	"reflect"

	"golang.org/x/sys/unix"
)

// factMask has the events after which a fact may have changed: files and folders that
// are created, deleted or moved, and closes by writers, including a writer that dies.
// Readers cause none of them, and neither does a write in progress, because the files
// are written atomically.
const factMask = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

// Watch calls deliver with all facts, once at the start and again whenever one of them
// changes, including when the writer of a held file dies. It calls deliver in the
// caller's goroutine, and does not use the map afterwards. It returns nil when ctx ends.
//
// Watch notices changes of files at once. The kernel reports neither mounts nor a driver
// that is loaded or unloaded (procfs has no events): Watch notices these within 30 s. It
// notices a run root that appears within 1 s.
//
// Watch returns an error if it cannot watch the files. Each call delivers the facts at
// least once, so that a caller that retries still gets them.
func (d Dir) Watch(ctx context.Context, deliver func(map[Name]Fact)) error {
	var last map[Name]Fact
	check := func() bool {
		if facts := d.all(); !reflect.DeepEqual(facts, last) {
			last = facts
			deliver(maps.Clone(facts))
		}
		return false
	}
	check()
	if err := d.changes().wait(ctx, check); ctx.Err() == nil {
		return err
	}
	return nil
}

// WatchFiles calls check, in the caller's goroutine, once at the start and again whenever
// one of these files may have changed, including when the writer of a held file dies.
// It returns nil when ctx ends, and an error if it cannot watch the files.
func (d Dir) WatchFiles(ctx context.Context, check func(), paths ...string) error {
	var folders []string
	for _, p := range paths {
		folders = append(folders, filepath.Dir(p))
	}
	if err := closesOf(factMask, folders...).wait(ctx, func() bool { check(); return false }); ctx.Err() == nil {
		return err
	}
	return nil
}

// changes returns a wait for the changes of all facts.
func (d Dir) changes() closes {
	return closesOf(factMask, d.Root, d.folder())
}

// all reads all facts.
func (d Dir) all() map[Name]Fact {
	facts := map[Name]Fact{}
	for _, n := range Names() {
		facts[Name(n)] = d.Read(Name(n))
	}
	return facts
}
