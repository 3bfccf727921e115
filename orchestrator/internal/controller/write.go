package controller

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// jitter returns d or up to half more, so that many retries do not come together.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// write writes a plan: first the status with the inventory, so that a process that is killed
// leaves nothing that is not listed. It returns after which time to look again.
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
		c.cfg.Policies.Report(ctx, s.Policy, plan.Events)
	case changed:
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

// outline identifies what of a status is written at once: all but numbers of nodes and causes.
func outline(s model.Status) string {
	parts := []any{s.State, s.ObservedGeneration}
	for _, c := range s.Conditions {
		parts = append(parts, c.Type, c.Status, c.Reason)
	}
	for _, stage := range s.Stages {
		state := stage.State
		if model.Works(state) {
			state = model.Ready // the number of nodes is not part of the outline
		}
		parts = append(parts, stage.Name, state)
		for _, v := range stage.Validations {
			parts = append(parts, v.Name, v.State)
		}
	}
	return model.HashOf(parts...)
}

// writeObjects writes the objects of a plan. What failed before is left alone until its delay is
// over. It returns after which time to try again, 0 if nothing failed.
func (c *Controller) writeObjects(ctx context.Context, s model.State, plan model.Plan) time.Duration {
	failed, about := map[string]bool{}, map[model.Ref]bool{}
	for _, a := range plan.Apply {
		r := model.RefOf(a.Object)
		about[r] = true
		// The objects of a stage build on each other.
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
	if err != nil {
		return err
	}
	c.cfg.Observer.Applied(applied, a.Hash)
	c.repairs.applied(r, a.Hash, s.Now)
	c.cfg.Wrote(r, applied)
	// What comes next may wait for nothing but this.
	pace.Signal(c.cfg.Observer.Changed)
	return nil
}

// remove deletes an object. A namespace stays if others have objects in it.
func (c *Controller) remove(ctx context.Context, p model.Policy, seen model.Seen) error {
	if seen.Kind == "Namespace" {
		others, err := c.cfg.Client.Others(ctx, seen.Name)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			why := cluster.KeptMessage(seen.Ref, others)
			c.cfg.Log.Warn("a namespace is kept", "why", why)
			c.cfg.Policies.Report(ctx, p, []model.Event{{Warning: true, Reason: "NamespaceKept", Message: why}})
			return c.cfg.Client.Release(ctx, seen.Ref)
		}
	}
	err := c.cfg.Client.Delete(ctx, seen.Ref, seen.UID)
	if err == nil {
		c.cfg.Wrote(seen.Ref, nil)
	}
	return err
}

// attempt writes an object, unless it failed with the same content not long ago.
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
		// The status has to say so.
		pace.Signal(c.cfg.Observer.Changed)
	}
	f.text, f.retryAt = err.Error(), time.Now().Add(in)
	return false
}
