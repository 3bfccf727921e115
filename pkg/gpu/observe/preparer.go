package observe

import (
	"context"
	"reflect"
	"time"

	"outrigger.dev/pkg/gpu"
)

// recheck is how often a Preparer is asked whether it is outdated.
const recheck = 2 * time.Second

// Preparer makes what must be there before the GPUs of a node are used as W
// wants it.
type Preparer[W, P any] interface {
	// Scan reads what does not depend on the GPUs, while those are read. The
	// function that it returns does the rest. Neither is called again before
	// the other has returned.
	Scan(W) func(*gpu.Node) (P, error)
	// Outdated reports whether what the last Scan read has changed since. It
	// costs little, and does not ask the driver.
	Outdated() bool
}

// Unprepared is the Preparer of an agent that needs nothing but the GPUs.
type Unprepared[W, P any] struct{}

// Scan has nothing to read.
func (Unprepared[W, P]) Scan(W) func(*gpu.Node) (P, error) {
	return func(*gpu.Node) (p P, err error) { return p, nil }
}

// Outdated is never so.
func (Unprepared[W, P]) Outdated() bool { return false }

// rest waits for a reason to look again after a look that went well, and
// returns false when ctx ends. A change of what the Preparer read is no reason to
// ask the driver: only what was prepared is prepared again.
func (o *Observer[W, P]) rest(ctx context.Context) bool {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-o.again:
			return true
		case <-o.afresh:
			o.done = nil
			return true
		case <-ticker.C:
		}
		if !o.cfg.Preparer.Outdated() {
			continue
		}
		was := *o.done
		obs := o.prepare(was, o.cfg.Preparer.Scan(was.Wanted))
		if obs.Err != nil || !reflect.DeepEqual(was.Prepared, obs.Prepared) {
			o.renewed = &obs
			return true
		}
	}
}

// prepare makes what must be there before the GPUs that seen shows are used, and
// returns seen with that.
func (o *Observer[W, P]) prepare(seen Observation[W, P], rest func(*gpu.Node) (P, error)) Observation[W, P] {
	seen.Prepared, seen.Err = rest(seen.Node)
	o.done = nil
	if seen.Err == nil {
		o.done = &seen
	}
	return seen
}
