package observe

import (
	"context"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

const (
	// recheck is the interval of the checks whether a Preparer is outdated while its paths are
	// watched. Inotify does not report mounts, and the Preparer may depend on folders that it does
	// not watch.
	recheck = time.Minute
	// poll is the interval of these checks while the paths cannot be watched.
	poll = 2 * time.Second
)

// Preparer makes the files and other objects that must exist before the GPUs of a node are used as
// the desired state D describes.
type Preparer[D, P any] interface {
	// Scan reads the input that does not depend on the GPUs, while the GPUs are read. The function that
	// Scan returns makes the preparation. Scan and this function never run at the same time.
	Scan(D) func(*gpu.Node) (P, error)
	// Outdated reports whether the input of the last Scan, or the result of the preparation, has
	// changed since. It is cheap and does not access the driver.
	Outdated() bool
	// Watched returns the files and folders whose changes make the Preparer outdated. A
	// Preparer without such paths is never outdated.
	Watched() []string
}

// Unprepared is the Preparer of an agent that only needs the GPUs.
type Unprepared[D, P any] struct{}

// Scan reads nothing.
func (Unprepared[D, P]) Scan(D) func(*gpu.Node) (P, error) {
	return func(*gpu.Node) (p P, err error) { return p, nil }
}

// Outdated returns false.
func (Unprepared[D, P]) Outdated() bool { return false }

// Watched returns nothing.
func (Unprepared[D, P]) Watched() []string { return nil }

// waitAfterSuccess waits until it is time to refresh after a successful refresh, and returns false
// when ctx ends. It also returns after a value from the channel incomplete if more of the node can be
// read. After a change of the Preparer's input, it prepares again without a call of the driver, and
// returns only if the result differs.
func (o *Observer[D, P]) waitAfterSuccess(ctx context.Context, incomplete <-chan time.Time) bool {
	o.paths.follow(ctx, o.cfg.Preparer.Watched, o.preparations)
	// The intervals grow, because an installer may be working in the folders.
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
		// Reflection is necessary, because each agent has a different type of preparation.
		if obs.Err != nil || !reflect.DeepEqual(was.Prepared, obs.Prepared) {
			o.renewed = &obs
			return true
		}
		o.paths.follow(ctx, o.cfg.Preparer.Watched, o.preparations)
	}
}

// prepare makes the preparation for the GPUs of an observation, and returns the observation with it.
func (o *Observer[D, P]) prepare(seen Observation[D, P], rest func(*gpu.Node) (P, error)) Observation[D, P] {
	seen.Prepared, seen.Err = rest(seen.Node)
	o.preparations++
	o.done = nil
	if seen.Err == nil {
		o.done = &seen
	}
	return seen
}
