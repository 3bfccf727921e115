package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml/partition"
	"outrigger.dev/pkg/pace"
)

// transaction executes a plan, under the lease.
type transaction struct {
	*Applier
	grant *contract.Grant
	// patient is the context whose end ends the patience with what is in use.
	patient context.Context //nolint:containedctx // beside the one of the work, which goes on
	journal journal
}

// member is a GPU of a plan.
type member struct {
	id     gpu.UUID
	index  int
	before mig.State
	goal   mig.State
	// gpu is the GPU with its mode set, and read the view that has read it.
	gpu  mig.GPU
	read *partition.View
	// fabric is set for GPUs that are reset together.
	fabric bool
	steps  int
	// reset is set if the mode waits for a reset, and reboot says why that did not do.
	reset  bool
	reboot string
	err    error
}

// unit is what succeeds or is rolled back together.
type unit []*member

// failed reports whether a member of the unit failed.
func (u unit) failed() bool {
	return slices.ContainsFunc(u, func(m *member) bool { return m.err != nil })
}

// clone returns a copy of the unit with copies of its members, and set takes them over.
func (u unit) clone() unit {
	out := make(unit, 0, len(u))
	for _, m := range u {
		own := *m
		out = append(out, &own)
	}
	return out
}

func (u unit) set(from unit) {
	for i, m := range from {
		*u[i] = *m
	}
}

// rollbacks is how often a rollback is tried.
const rollbacks = 3

// run executes a plan. The error is for a plan of which nothing was done.
func (t *transaction) run(ctx context.Context, p Plan) (Result, error) {
	units, members := t.enter(p)
	if err := store(t.cfg.StateDir).save(t.journal); err != nil {
		return Result{}, fmt.Errorf("nothing is changed without a journal: %w", err)
	}
	t.drive(ctx, units, func(m *member) mig.State { return m.goal })
	var r Result
	for _, u := range units {
		outcome := Applied
		if u.failed() {
			outcome = t.rollBack(ctx, u)
		}
		for _, m := range u {
			r.GPUs = append(r.GPUs, t.leave(m, outcome))
		}
	}
	for _, c := range p.GPUs {
		if !slices.ContainsFunc(members, func(m *member) bool { return m.id == c.GPU.UUID }) {
			t.journal.drop(c.GPU.UUID)
			r.GPUs = append(r.GPUs, Outcomes{Index: c.GPU.Index, UUID: c.GPU.UUID, Outcome: Unchanged})
		}
	}
	slices.SortFunc(r.GPUs, func(a, b Outcomes) int { return a.Index - b.Index })
	if err := store(t.cfg.StateDir).save(t.journal); err != nil {
		// It is read at the next start: what is done then is no change.
		t.cfg.Log.Warn("cannot update the journal, it is read again at the next start", "err", err)
	}
	return r, nil
}

// enter makes units of a plan, and enters their GPUs in the journal.
func (t *transaction) enter(p Plan) (units []unit, members []*member) {
	var fabric unit
	for _, c := range p.GPUs {
		if !c.Needed() {
			continue
		}
		m := &member{id: c.GPU.UUID, index: c.GPU.Index, before: c.GPU.State, goal: c.Target, fabric: c.fabric}
		if e, ok := t.journal.find(m.id); ok && !same(m.before, e.Goal) {
			m.before = e.Before // the last state that somebody asked for
		}
		t.journal.put(entry{UUID: m.id, Index: m.index, Before: m.before, Goal: m.goal, Desired: c.desired})
		members = append(members, m)
		if m.fabric {
			fabric = append(fabric, m)
		} else {
			units = append(units, unit{m})
		}
	}
	if len(fabric) > 0 {
		units = append(units, fabric)
	}
	return units, members
}

// leave returns what became of a GPU, and takes it from the journal if it is where it should
// be.
func (t *transaction) leave(m *member, outcome Outcome) Outcomes {
	out := Outcomes{Index: m.index, UUID: m.id, Outcome: outcome, Steps: m.steps, Err: m.err}
	switch {
	case outcome == Applied && m.reboot != "":
		out.Outcome, out.Err = NeedsReboot, &RebootError{GPU: m.id, Index: m.index, Reason: m.reboot}
	case outcome == Applied && m.goal.Enabled != m.goal.Pending:
		out.Outcome = Pending
	}
	if out.Outcome != NeedsReboot && out.Outcome != Unfinished {
		t.journal.drop(m.id)
	}
	if out.Err == nil {
		t.cfg.Log.Info("changed the mig layout of a gpu", "gpu", m.index, "uuid", m.id, "outcome", out.Outcome, "steps", out.Steps)
	}
	return out
}

// rollBack brings a unit back to what it was, and returns what became of it. All its members
// have an error then.
func (t *transaction) rollBack(ctx context.Context, u unit) Outcome {
	var causes []error
	for _, m := range u {
		causes = append(causes, m.err)
	}
	cause := errors.Join(causes...)
	outcome := Unfinished
	var undo error
	for try := 0; try < rollbacks && outcome != RolledBack && (try == 0 || ctx.Err() == nil); try++ {
		for _, m := range u {
			m.err, m.reset, m.reboot = nil, false, ""
		}
		t.drive(ctx, []unit{u}, func(m *member) mig.State { return m.before })
		undo = nil
		for _, m := range u {
			if m.reboot != "" {
				m.err = &RebootError{GPU: m.id, Index: m.index, Reason: m.reboot}
			}
			undo = errors.Join(undo, m.err)
		}
		if undo == nil {
			outcome = RolledBack
		}
	}
	for i, m := range u {
		own := causes[i]
		if own == nil {
			own = fmt.Errorf("it is reset only together with others on its NVLink fabric: %w", cause)
		}
		m.err = fmt.Errorf("change MIG layout of GPU %d (%s): %w; the GPU is as before", m.index, m.id, own)
		if outcome == Unfinished {
			m.err = fmt.Errorf("change MIG layout of GPU %d (%s): %w; it could not be rolled back, the journal keeps it: %w", m.index, m.id, own, undo)
		}
	}
	return outcome
}

// drive brings units to the states that to returns. It stores errors in their members.
func (t *transaction) drive(ctx context.Context, units []unit, to func(*member) mig.State) {
	waiting := t.phase(ctx, units, func(w *work, u unit) bool {
		for _, m := range u {
			m.err = w.prepare(m, to(m))
		}
		if u.failed() || slices.ContainsFunc(u, func(m *member) bool { return m.reset }) {
			return true
		}
		w.finish(u, to)
		return false
	})
	waiting = slices.DeleteFunc(waiting, unit.failed)
	if len(waiting) == 0 {
		return
	}
	for _, u := range waiting {
		t.resetUnit(ctx, u)
	}
	t.phase(ctx, slices.DeleteFunc(waiting, unit.failed), func(w *work, u unit) bool {
		w.finish(u, to)
		return false
	})
}

// phase calls f for units while NVML is initialized, and returns those for which f returns
// true. An error that concerns the whole node is that of each unit that was not done.
func (t *transaction) phase(ctx context.Context, units []unit, f func(*work, unit) bool) []unit {
	var again []unit
	var mu sync.Mutex // a call that hangs is left behind when ctx ends, with the unit that it is for
	done, left := 0, false
	_, err := granted(ctx, t, func(v *partition.View) (struct{}, error) {
		w := &work{transaction: t, view: v, ctx: ctx}
		mu.Lock()
		defer mu.Unlock()
		for _, u := range units {
			if left {
				break
			}
			own := u.clone()
			mu.Unlock()
			waits := f(w, own)
			mu.Lock()
			if left {
				break
			}
			u.set(own)
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
	if err == nil {
		return again
	}
	for _, u := range units[done:] {
		for _, m := range u {
			m.err = err
		}
	}
	return again
}

// resetUnit resets the GPUs of a unit. If that does not work, they need a reboot, unless
// something uses them.
func (t *transaction) resetUnit(ctx context.Context, u unit) {
	gpus := make([]mig.GPU, 0, len(u))
	for _, m := range u {
		gpus = append(gpus, m.gpu)
	}
	err := t.retry(func() error { return t.cfg.Reset.Reset(ctx, gpus) }, func(err error) bool { return errors.Is(err, ErrBusy) })
	for _, m := range u {
		switch {
		case errors.Is(err, ErrBusy):
			m.err = errors.Join(t.inUse(ctx, m), err)
		case err != nil && m.reset:
			m.reboot = err.Error()
		}
	}
}

// retry calls do until it succeeds, fails for another reason than being busy, or the
// patience is over.
func (t *transaction) retry(do func() error, busy func(error) bool) error {
	pause := pace.Backoff{First: 20 * time.Millisecond, Most: time.Second}
	for until := time.Now().Add(t.cfg.Patience); ; {
		err := do()
		if err == nil || !busy(err) || time.Now().After(until) || !pause.Pause(t.patient) {
			return err
		}
	}
}
