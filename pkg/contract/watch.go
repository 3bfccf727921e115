package contract

import (
	"context"
	"maps"
	"reflect"

	"golang.org/x/sys/unix"
)

// factMask are the events after which a fact may read differently: files and
// folders that come and go, and closes by writers, the last of which is that of a
// writer which dies. What readers do is not among them, and neither is a write
// that goes on: files of the contract are written whole.
const factMask = unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO

// Watch calls deliver from the caller's goroutine with all facts: at first, and
// whenever one of them reads differently from before, the death of the writer of
// a held file included. The map is not used afterwards. It returns nil when ctx
// ends.
//
// Files are noticed at once. The kernel tells nothing of mounts, nor of a driver
// that is loaded or unloaded (procfs has no events), nor of a run root that
// comes into being; for those the facts are read again once a second, which
// takes about a tenth of a millisecond.
//
// An error says that nothing can be watched; the facts were delivered at least
// once, and are by each call, so that a caller who tries again from time to time
// still gets to know them.
func (d Dir) Watch(ctx context.Context, deliver func(map[Name]Fact)) error {
	var last map[Name]Fact
	look := func() bool {
		if facts := d.all(); !reflect.DeepEqual(facts, last) {
			last = facts
			deliver(maps.Clone(facts))
		}
		return false
	}
	look()
	if err := d.changes().wait(ctx, look); ctx.Err() == nil {
		return err
	}
	return nil
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
