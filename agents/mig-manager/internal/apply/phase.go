package apply

import (
	"context"
	"slices"
	"sync"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml/partition"
)

// begin returns the first phase of a change to the states that the function to returns. The phase
// reports whether a unit waits for a reset or has failed.
func begin(to func(*member) mig.State) func(*work, unit) bool {
	return func(w *work, u unit) bool {
		for _, m := range u {
			m.err = w.prepare(m, to(m))
		}
		if u.failed() || slices.ContainsFunc(u, func(m *member) bool { return m.reset }) {
			return true
		}
		w.finish(u, to)
		return false
	}
}

// complete resets the units that wait for a reset, and brings them to the states that the function to
// returns. It stores errors in the members.
func (t *transaction) complete(ctx context.Context, waiting []unit, to func(*member) mig.State) {
	waiting = slices.DeleteFunc(waiting, unit.failed)
	for _, u := range waiting {
		t.resetUnit(ctx, u)
	}
	waiting = slices.DeleteFunc(waiting, unit.failed)
	if len(waiting) == 0 {
		return
	}
	t.phase(ctx, waiting, func(w *work, u unit) bool {
		w.finish(u, to)
		return false
	})
}

// phase calls f for units while NVML is initialized. f reports whether a unit needs another phase,
// and phase returns these units. An error that concerns the whole node is stored in each remaining
// unit.
func (t *transaction) phase(ctx context.Context, units []unit, f func(*work, unit) bool) []unit {
	_, again, err := t.eachUnit(ctx, func(*partition.View) (func() ([]unit, error), error) {
		return func() ([]unit, error) { return units, nil }, nil
	}, f)
	if err != nil {
		failAll(units, err)
	}
	return again
}

func failAll(units []unit, err error) {
	for _, u := range units {
		for _, m := range u {
			m.err = err
		}
	}
}

// eachUnit is like phase, for the units that the parameter begin returns. begin must not have side
// effects: it may still run after ctx has ended, and then its result is not used. If eachUnit returns
// an error, it has not changed any unit.
func (t *transaction) eachUnit(ctx context.Context, begin func(*partition.View) (func() ([]unit, error), error), f func(*work, unit) bool) (units, again []unit, err error) {
	var mu sync.Mutex // after ctx ends, a call that hangs is abandoned together with its unit
	done, left := 0, false
	_, err = granted(ctx, t, func(v *partition.View) (struct{}, error) {
		of, err := begin(v)
		if err != nil {
			return struct{}{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		if left {
			return struct{}{}, nil
		}
		if units, err = of(); err != nil {
			return struct{}{}, err
		}
		w := &work{transaction: t, view: v, ctx: ctx}
		for _, u := range units {
			own := u.clone()
			mu.Unlock()
			waits := f(w, own)
			mu.Lock()
			if left {
				break
			}
			u.copyFrom(own)
			if waits {
				again = append(again, u)
			}
			done++
		}
		return struct{}{}, nil
	})
	mu.Lock()
	defer mu.Unlock()
	left = true
	if err != nil && units != nil {
		failAll(units[done:], err)
		err = nil
	}
	return units, again, err
}
