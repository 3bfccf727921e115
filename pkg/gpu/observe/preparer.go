package observe

import (
	"context"
	"reflect" // DeepEqual: slices, maps or pointers are in the values
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

const (
	// recheck is how often a Preparer is asked whether it is outdated while its
	// paths are watched. Inotify does not report mounts, and the Preparer may
	// depend on folders that it does not watch.
	recheck = time.Minute
	// poll is how often it is asked while they cannot be watched.
	poll = 2 * time.Second
)

// Preparer makes what must exist before the GPUs of a node are used as the desired
// state D describes.
type Preparer[D, P any] interface {
	// Scan reads what does not depend on the GPUs, while those are read. The
	// function that it returns does the rest. Neither is called again before
	// the other has returned.
	Scan(D) func(*gpu.Node) (P, error)
	// Outdated reports whether what the last Scan read, or what was prepared
	// after it, has changed since. It costs little and does not ask the driver.
	Outdated() bool
	// Watched returns the files and folders in which a change makes the
	// Preparer outdated. A Preparer without any is never outdated.
	Watched() []string
}

// Unprepared is the Preparer of an agent that needs nothing but the GPUs.
type Unprepared[D, P any] struct{}

// Scan has nothing to read.
func (Unprepared[D, P]) Scan(D) func(*gpu.Node) (P, error) {
	return func(*gpu.Node) (p P, err error) { return p, nil }
}

// Outdated returns false.
func (Unprepared[D, P]) Outdated() bool { return false }

// Watched returns nothing.
func (Unprepared[D, P]) Watched() []string { return nil }

// waitAfterSuccess waits until it is time to refresh after a refresh that succeeded, and returns
// false when ctx ends. A value of incomplete ends it if more of the node can be read.
// After a change of what the Preparer read, rest prepares again without a call to the
// driver, and ends only if the result differs.
func (o *Observer[D, P]) waitAfterSuccess(ctx context.Context, incomplete <-chan time.Time) bool {
	o.paths.follow(ctx, o.cfg.Preparer.Watched, o.preparations)
	// Folders in which an installer works are read ever less often.
	settled := pace.Backoff{First: settle, Most: poll}
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-o.refresh:
			return true
		case <-incomplete:
			if o.mayShowMore(ctx) {
				return true
			}
			incomplete = o.incomplete(o.done.Node)
			continue
		case <-o.reload:
			o.done = nil
			return true
		case <-o.paths.changed():
			if o.paths.schedule() && due == nil {
				due = time.After(settled.Next())
			}
			continue
		case <-due:
		case <-o.paths.tick():
			o.paths.repair(ctx)
		}
		due = nil
		if !o.cfg.Preparer.Outdated() {
			settled.Reset()
			continue
		}
		was := *o.done
		obs := o.prepare(was, o.cfg.Preparer.Scan(was.Desired))
		// Reflection, because each agent has its own type of what is prepared.
		if obs.Err != nil || !reflect.DeepEqual(was.Prepared, obs.Prepared) {
			o.renewed = &obs
			return true
		}
		o.paths.follow(ctx, o.cfg.Preparer.Watched, o.preparations)
	}
}

// prepare makes what must be there before the GPUs that seen shows are used, and
// returns seen with that.
func (o *Observer[D, P]) prepare(seen Observation[D, P], rest func(*gpu.Node) (P, error)) Observation[D, P] {
	seen.Prepared, seen.Err = rest(seen.Node)
	o.preparations++
	o.done = nil
	if seen.Err == nil {
		o.done = &seen
	}
	return seen
}
