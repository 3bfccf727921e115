package contract

import (
	"context"
	"maps"
	"path/filepath"
	"reflect"

	"golang.org/x/sys/unix"
)

// factMask has the events after which a fact may read differently: files and
// folders that are created, removed or moved, and closes by writers, including the
// one of a writer that dies. Readers cause none of them, and neither does a write
// in progress: files of the contract are written whole.
const factMask = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

// Watch calls deliver from the caller's goroutine with all facts: first, and then
// whenever one of them reads differently, including when the writer of a held file
// dies. Watch does not use the map afterwards. It returns nil when ctx ends.
//
// Changes of files are noticed at once. The kernel reports neither mounts nor a
// driver that is loaded or unloaded (procfs has no events): Watch notices them
// within lastCheck. It notices a run root that appears within lastCheckAbsent.
//
// An error means that nothing can be watched. Each call delivers the facts at least
// once, so that a caller who retries still learns them.
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

// WatchFiles calls check from the caller's goroutine first, and then whenever one of
// these files may read differently, including when the writer of a held file dies.
// It returns nil when ctx ends, and an error if nothing can be watched.
func (d Dir) WatchFiles(ctx context.Context, check func(), paths ...string) error {
	var folders []string
	for _, p := range paths {
		folders = append(folders, filepath.Dir(p))
	}
	err := closesOf(factMask, folders...).wait(ctx, func() bool { check(); return false })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// changes are the events that concern any fact.
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
