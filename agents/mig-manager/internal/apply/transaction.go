package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml/partition"
	"outrigger.dev/pkg/pace"
)

// transaction executes a plan under the lease.
type transaction struct {
	*Applier
	grant *contract.Grant
	// patient is the context for waits. When it ends, the transaction does not wait for users any more.
	patient context.Context //nolint:containedctx // the context of work does not end with this one
	journal journal
}

// member is a GPU of a plan.
type member struct {
	id     gpu.UUID
	index  int
	before mig.State
	goal   mig.State
	// gpu is the GPU as it was last read, and read is the view that read it.
	gpu  mig.GPU
	read *partition.View
	// undo is set during a rollback.
	undo bool
	// fabric is set for GPUs that are reset together.
	fabric bool
	steps  int
	// reset is set if the mode takes effect after a reset, and reboot says why a reset was not sufficient.
	reset  bool
	reboot string
	err    error
}

// unit is a group of GPUs that succeed or are rolled back together.
type unit []*member

// failed reports whether a member of the unit failed.
func (u unit) failed() bool {
	return slices.ContainsFunc(u, func(m *member) bool { return m.err != nil })
}

// clone returns a copy of the unit with copies of its members. copyFrom copies the members back.
func (u unit) clone() unit {
	out := make(unit, 0, len(u))
	for _, m := range u {
		own := *m
		out = append(out, &own)
	}
	return out
}

func (u unit) copyFrom(from unit) {
	for i, m := range from {
		*u[i] = *m
	}
}

// rollbacks is the largest number of attempts of a rollback. The pauses between attempts are fractions
// of Config.Patience: by default, 1 s and 2 s. Most temporary failures end in this time.
const rollbacks = 3

// run executes the plan that the function plan returns. After an error, no GPU was changed.
func (t *transaction) run(ctx context.Context, plan func(*partition.View) (Plan, error)) (Result, error) {
	var p Plan
	goal := func(m *member) mig.State { return m.goal }
	units, waiting, err := t.eachUnit(ctx, func(v *partition.View) (func() ([]unit, error), error) {
		planned, err := plan(v)
		return func() ([]unit, error) {
			p = planned
			units := t.addToJournal(p, v)
			if err := store(t.cfg.StateDir).save(t.journal); err != nil {
				return nil, fmt.Errorf("no GPU is changed, because the journal cannot be written: %w", err)
			}
			return units, nil
		}, err
	}, begin(goal))
	if err != nil {
		return Result{}, err
	}
	t.complete(ctx, waiting, goal)
	r := Result{slices.Clone(p.Faulty)}
	for _, u := range units {
		outcome := Applied
		if u.failed() {
			outcome = t.rollBack(ctx, u)
		}
		for _, m := range u {
			r.GPUs = append(r.GPUs, t.recordOutcome(m, outcome))
		}
	}
	for _, c := range p.GPUs {
		if !c.Needed() {
			t.journal.drop(c.GPU.UUID)
			r.GPUs = append(r.GPUs, Outcomes{Index: c.GPU.Index, UUID: c.GPU.UUID, Outcome: Unchanged})
		}
	}
	r.sort()
	if err := store(t.cfg.StateDir).save(t.journal); err != nil {
		// The journal is read at the next start, which then changes nothing.
		t.cfg.Log.Warn("cannot update the journal, reading it again at the next start", "err", err)
	}
	return r, nil
}

func (r *Result) sort() {
	slices.SortStableFunc(r.GPUs, func(a, b Outcomes) int { return a.Index - b.Index })
}

// addToJournal makes units from a plan whose GPUs v has read, and adds them to the journal.
func (t *transaction) addToJournal(p Plan, v *partition.View) (units []unit) {
	var fabric unit
	for _, c := range p.GPUs {
		if !c.Needed() {
			continue
		}
		m := &member{id: c.GPU.UUID, index: c.GPU.Index, before: c.GPU.State, goal: c.Target, gpu: c.GPU, read: v, fabric: c.fabric}
		if e, ok := t.journal.find(m.id); ok && !m.before.Equal(e.Goal) {
			m.before = e.Before // an interrupted change: its previous state counts
		}
		t.journal.put(entry{UUID: m.id, Index: m.index, Before: m.before, Goal: m.goal, Desired: c.desired})
		if m.fabric {
			fabric = append(fabric, m)
		} else {
			units = append(units, unit{m})
		}
	}
	if len(fabric) > 0 {
		units = append(units, fabric)
	}
	return units
}

// recordOutcome returns the outcome for a GPU. It removes the GPU from the journal if the change is
// finished.
func (t *transaction) recordOutcome(m *member, outcome Outcome) Outcomes {
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
	message := "changed the mig layout of a gpu"
	if out.Steps == 0 {
		message = "reset a gpu with others of its nvlink fabric, its mig layout is unchanged"
	}
	if out.Err == nil {
		t.cfg.Log.Info(message, "gpu", m.index, "uuid", m.id, "outcome", out.Outcome, "steps", out.Steps) //nolint:sloglint // one of two constants
	}
	return out
}

// rollBack restores the previous states of a unit, and returns the outcome. It sets the errors of all
// members.
func (t *transaction) rollBack(ctx context.Context, u unit) Outcome {
	var causes []error
	for _, m := range u {
		causes = append(causes, m.err)
	}
	cause := errors.Join(causes...)
	outcome := Unfinished
	var undo error
	pause := pace.Backoff{First: t.cfg.Patience / 10, Most: t.cfg.Patience}
	for try := 0; try < rollbacks && outcome != RolledBack; try++ {
		if try > 0 {
			t.wait(&pause)
		}
		if try > 0 && ctx.Err() != nil {
			break
		}
		for _, m := range u {
			m.err, m.reset, m.reboot, m.undo = nil, false, "", true
		}
		before := func(m *member) mig.State { return m.before }
		t.complete(ctx, t.phase(ctx, []unit{u}, begin(before)), before)
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
			own = fmt.Errorf("it can be reset only together with the other GPUs of its NVLink fabric: %w", cause)
		}
		m.err = fmt.Errorf("change MIG layout of GPU %d (%s): %w; the GPU has its previous layout", m.index, m.id, own)
		if outcome == Unfinished {
			m.err = fmt.Errorf("change MIG layout of GPU %d (%s): %w; the rollback failed, and the change stays in the journal: %w", m.index, m.id, own, undo)
		}
	}
	return outcome
}

// resetUnit resets the GPUs of a unit. If the reset fails, the GPUs need a reboot, unless they are in use.
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

// wait waits for the next attempt. After SIGTERM, it does not wait and returns false.
func (t *transaction) wait(b *pace.Backoff) bool { return b.Pause(t.patient) }

// retry calls do until it succeeds, busy returns false for its error, or the patience ends.
func (t *transaction) retry(do func() error, busy func(error) bool) error {
	pause := pace.Backoff{First: 20 * time.Millisecond, Most: time.Second}
	for until := time.Now().Add(t.cfg.Patience); ; {
		err := do()
		if err == nil || !busy(err) || time.Now().After(until) || !t.wait(&pause) {
			return err
		}
	}
}
