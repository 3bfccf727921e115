package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

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
	again := c.writeObjects(ctx, s, plan)
	if s.Policy.Deleting && len(plan.Status.Inventory) == 0 {
		return 0, c.cfg.Policies.Gone(ctx, s.Policy)
	}
	return model.Soonest(in, again), ctx.Err()
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

// writeObjects writes the objects of a plan, except for objects whose pause is not over. It returns the delay until the end
// of the first pause, or 0.
func (c *Controller) writeObjects(ctx context.Context, s model.State, plan model.Plan) time.Duration {
	failed, about := map[string]bool{}, map[model.Ref]bool{}
	for _, a := range plan.Apply {
		r := model.RefOf(a.Object)
		about[r] = true
		// After a failure, the rest of the stage is skipped, because the objects of a stage depend
		// on each other.
		if !failed[a.Stage] {
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
	maps.DeleteFunc(c.attempts, func(r model.Ref, x *attempt) bool { return x.failed && !about[r] })
	return c.attempts.next(time.Now())
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

// attempt writes an object, unless the pause after the last attempt with the same content is not over. It reports whether
// the last attempt succeeded.
func (c *Controller) attempt(verb string, r model.Ref, hash string, now time.Time, write func() error) bool {
	if c.attempts.postponed(r, verb+hash, now) {
		return !c.attempts[r].failed
	}
	err := write()
	c.Metrics.Wrote(verb, err)
	if err == nil && verb != "apply" {
		delete(c.attempts, r)
		return true
	}
	now = time.Now()
	x := c.attempts.record(r, verb+hash, now, err != nil)
	if err != nil && x.why != err.Error() {
		x.why = err.Error()
		c.cfg.Log.Error("cannot write an object, retrying", "object", r, "in", x.nextAt.Sub(now), "err", err)
		// The next pass puts the failure into the status.
		pace.Signal(c.cfg.Observer.Changed)
	}
	return err == nil
}
