package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// jitter returns d plus up to 50 %, so that many retries do not happen at the same time.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// write writes a plan. It writes the status with the inventory first, so that every object is
// listed even if the process is killed. It returns the delay until the next pass, or 0 for none.
func (c *Controller) write(ctx context.Context, s model.State, plan model.Plan) (time.Duration, error) {
	in := plan.Again
	changed := model.HashOf(s.Policy.Status) != model.HashOf(plan.Status)
	listed := slices.Equal(s.Policy.Status.Inventory, plan.Status.Inventory)
	switch {
	case changed && (!listed || outline(s.Policy.Status) != outline(plan.Status) || c.budget.Spend(s.Now)):
		err := c.cfg.Policies.Publish(ctx, s.Policy, plan.Status)
		if c.Metrics.Wrote("status", err); err != nil {
			return 0, err
		}
		c.logStages(s.Policy.Status.Stages, plan.Status.Stages)
		c.cfg.Policies.Report(ctx, s.Policy, plan.Events)
	case changed:
		// The next pass derives the other Events again, because the status is not published.
		c.cfg.Policies.Report(ctx, s.Policy, repairsOnly(plan.Events))
		in = model.Soonest(in, statusEvery)
	default:
		c.cfg.Policies.Report(ctx, s.Policy, plan.Events)
	}
	retry := c.writeObjects(ctx, s, plan)
	if s.Policy.Deleting && len(plan.Status.Inventory) == 0 {
		return 0, c.cfg.Policies.Gone(ctx, s.Policy)
	}
	return model.Soonest(in, model.Soonest(retry, c.repairs.next(s.Now))), ctx.Err()
}

// repairsOnly returns the Events that are about writes of a plan.
func repairsOnly(events []model.Event) []model.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e model.Event) bool { return !e.Repair })
}

// logStages logs each stage whose state has changed since the published status.
func (c *Controller) logStages(before, now []model.StageStatus) {
	last := map[string]string{}
	for _, st := range before {
		last[st.Name] = st.State
	}
	for _, st := range now {
		if last[st.Name] != st.State {
			c.cfg.Log.Info("the state of a stage changed", "stage", st.Name, "state", st.State, "nodes", st.Desired, "ready", st.Ready, "failed", st.Failed, "why", st.Message)
		}
	}
}

// outline identifies the parts of a status that are written without delay: everything except
// numbers of nodes, causes and progress.
func outline(s model.Status) string {
	parts := []any{s.State, s.ObservedGeneration}
	for _, c := range s.Conditions {
		if c.Type != model.ConditionProgressing {
			parts = append(parts, c.Type, c.Status, c.Reason)
		}
	}
	for _, stage := range s.Stages {
		parts = append(parts, stage.Name, stage.State == model.Waiting, stage.State == model.Failed)
		for _, v := range stage.Validations {
			parts = append(parts, v.Name, v.State)
		}
	}
	return model.HashOf(parts...)
}

// writeObjects writes the objects of a plan. It skips an object that failed before until the delay
// is over. It returns the delay until the next attempt, or 0 if no write failed.
func (c *Controller) writeObjects(ctx context.Context, s model.State, plan model.Plan) time.Duration {
	failed, about := map[string]bool{}, map[model.Ref]bool{}
	for _, a := range plan.Apply {
		r := model.RefOf(a.Object)
		about[r] = true
		// After a failure, the rest of the stage is skipped, because the objects of a stage depend
		// on each other.
		if !failed[a.Stage] && !c.repairs.postponed(r, a.Hash, s.Now) {
			failed[a.Stage] = !c.attempt("apply", r, a.Hash, s.Now, func() error { return c.apply(ctx, s, a) })
		}
	}
	for _, o := range plan.Create {
		r := model.RefOf(o)
		about[r] = true
		c.attempt("create", r, "", s.Now, func() error { return c.cfg.Client.Create(ctx, o) })
	}
	for _, seen := range plan.Delete {
		about[seen.Ref] = true
		c.attempt("delete", seen.Ref, "", s.Now, func() error { return c.remove(ctx, s.Policy, seen) })
	}
	maps.DeleteFunc(c.failures, func(r model.Ref, _ *failure) bool { return !about[r] })
	var in time.Duration
	for _, f := range c.failures {
		in = model.Soonest(in, max(time.Until(f.retryAt), pause))
	}
	return in
}

func (c *Controller) apply(ctx context.Context, s model.State, a model.Apply) error {
	r := model.RefOf(a.Object)
	applied, err := c.cfg.Client.Apply(ctx, a.Object, cluster.Mode{Known: s.Objects[r].Ours, Adopt: s.Policy.Adopt})
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the Helm release of the orchestrator has the rights that its values need: run helm upgrade with these values", err)
	}
	if err != nil {
		return err
	}
	c.cfg.Observer.Applied(applied, a.Hash)
	c.repairs.applied(r, a.Hash, s.Now)
	c.cfg.Wrote(r, applied)
	// Start the next pass: it may have nothing to wait for except this write.
	pace.Signal(c.cfg.Observer.Changed)
	return nil
}

// remove deletes an object. A namespace is kept if others have objects in it.
func (c *Controller) remove(ctx context.Context, p model.Policy, seen model.Seen) error {
	if seen.Kind == "Namespace" {
		others, err := c.cfg.Client.Others(ctx, seen.Name)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			why := cluster.KeptMessage(seen.Ref, others)
			c.cfg.Log.Warn("a namespace is kept", "why", why)
			c.cfg.Policies.Report(ctx, p, []model.Event{{Warning: true, Reason: model.ReasonNamespaceKept, Message: why}})
			return c.cfg.Client.Release(ctx, seen.Ref)
		}
	}
	err := c.cfg.Client.Delete(ctx, seen.Ref, seen.UID)
	if err == nil {
		c.cfg.Wrote(seen.Ref, nil)
	}
	return err
}

// attempt writes an object, unless the same content failed and its delay is not over. It reports
// whether the object was written.
func (c *Controller) attempt(verb string, r model.Ref, hash string, now time.Time, write func() error) bool {
	hash = verb + hash
	f := c.failures[r]
	if f != nil && f.hash == hash && now.Before(f.retryAt) {
		return false
	}
	err := write()
	c.Metrics.Wrote(verb, err)
	if err == nil {
		delete(c.failures, r)
		return true
	}
	if f == nil || f.hash != hash {
		f = &failure{hash: hash, backoff: pace.Backoff{First: firstRetry, Most: maxRetry}}
		c.failures[r] = f
	}
	in := jitter(f.backoff.Next())
	if f.text != err.Error() {
		c.cfg.Log.Error("cannot write an object, retrying", "object", r, "in", in, "err", err)
		// The next pass puts the failure into the status.
		pace.Signal(c.cfg.Observer.Changed)
	}
	f.text, f.retryAt = err.Error(), time.Now().Add(in)
	return false
}

// immediateRepairs is the number of repairs of an object without a delay.
const immediateRepairs = 2

// repairs counts, for each applied object, how often it was applied again. Another controller may
// undo each write.
type repairs map[model.Ref]*repair

type repair struct {
	hash    string
	times   int
	backoff pace.Backoff
	// nextAt is the earliest time of the next apply of the object.
	nextAt time.Time
	// held is the reason why the object differs from its desired state until nextAt. It is empty if no
	// program changed the object.
	held string
}

// observe finds the objects that another program changed or deleted again after their repair. It adds the reason to the
// failures of the state.
func (r repairs) observe(s model.State) {
	for ref, x := range r {
		seen, there := s.Objects[ref]
		undone := !there || seen.Drifted
		switch {
		case !undone && !s.Now.Before(x.nextAt):
			x.held = ""
		case undone && s.Now.Before(x.nextAt):
			x.held = fmt.Sprintf("%s: %s each time after it was applied: let only one program manage it; it is applied again after pauses of up to %s", ref, undoneBy(seen, there), maxRetry)
		}
		if x.held != "" {
			s.Failures[ref] = x.held
		}
	}
}

func undoneBy(seen model.Seen, there bool) string {
	switch {
	case !there:
		return "somebody deletes it"
	case seen.Owner == "":
		return "somebody changes it"
	}
	return seen.Owner + " changes it"
}

// postponed reports whether it is too early to apply an object with this hash again.
func (r repairs) postponed(ref model.Ref, hash string, now time.Time) bool {
	x := r[ref]
	return x != nil && x.hash == hash && now.Before(x.nextAt)
}

// applied records that an object with this hash was applied.
func (r repairs) applied(ref model.Ref, hash string, now time.Time) {
	x := r[ref]
	if x == nil || x.hash != hash || now.Sub(x.nextAt) > maxRetry {
		r[ref] = &repair{hash: hash, nextAt: now, backoff: pace.Backoff{First: firstRetry, Most: maxRetry}}
		return
	}
	x.nextAt = now
	if x.times++; x.times > immediateRepairs {
		x.nextAt = now.Add(jitter(x.backoff.Next()))
	}
}

// next returns the delay until the next repair. It returns 0 if no object waits for a repair.
func (r repairs) next(now time.Time) time.Duration {
	var in time.Duration
	for _, x := range r {
		if x.held != "" {
			in = model.Soonest(in, max(x.nextAt.Sub(now), pause))
		}
	}
	return in
}
