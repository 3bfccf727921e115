package contract

import (
	"context"
	"maps"
	"path/filepath"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"time"

	"outrigger.dev/pkg/pace"
)

// Watch calls deliver with all facts, once at the start and again whenever one of them changes,
// including when the writer of a held file dies. It calls deliver in the caller's goroutine, and
// does not use the map afterwards. It returns nil when ctx ends.
//
// Watch notices changes of files at once. The kernel does not report mounts, and does not report
// that a driver was loaded or unloaded, because procfs has no events. Watch notices these within 5
// s. It notices a run root that appears within 1 s, and all changes within 1 s if it cannot watch
// the files.
func (d Dir) Watch(ctx context.Context, deliver func(map[Name]Fact)) error {
	var last map[Name]Fact
	_ = d.changes(d.folder()).wait(ctx, func() bool {
		// Reflection is necessary, because a fact has a map.
		if facts := d.readAll(); !reflect.DeepEqual(facts, last) {
			last = facts
			deliver(maps.Clone(facts))
		}
		return false
	})
	return nil
}

// WatchFiles calls check, in the caller's goroutine, once at the start and again whenever
// one of these files may have changed, including when the writer of a held file dies.
// It returns nil when ctx ends. It notices changes as Watch does.
func (d Dir) WatchFiles(ctx context.Context, check func(), paths ...string) error {
	var folders []string
	for _, p := range paths {
		folders = append(folders, filepath.Dir(p))
	}
	_ = d.changes(folders...).wait(ctx, func() bool { check(); return false })
	return nil
}

// factPause keeps two programs from replacing the same fact in a loop.
const factPause = time.Second

// WatchFact is WatchFiles for the writer of a fact that stays valid after its writer ends. check
// publishes the fact again if another program has removed or changed it, and returns whether it
// did. WatchFact then waits a second before the next call.
func (d Dir) WatchFact(ctx context.Context, n Name, check func() (lost bool)) {
	_ = d.WatchFiles(ctx, func() { // WatchFiles ends with ctx
		if check() {
			pace.Pause(ctx, factPause)
		}
	}, d.Path(n))
}

// readAll reads all facts.
func (d Dir) readAll() map[Name]Fact {
	facts := map[Name]Fact{}
	for _, n := range Names() {
		facts[Name(n)] = d.Read(Name(n))
	}
	return facts
}
