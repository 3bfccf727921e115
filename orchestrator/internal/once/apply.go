// Package once does to a cluster what a person or a pipeline asks for, and ends: it applies
// and deletes stages as the controller does, with values files in place of a ClusterPolicy, and a
// ConfigMap in place of its status; and it shows what would change.
package once

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
)

// Apply is one application of stages: for the controller, a policy that values files describe.
type Apply struct {
	Store   Store
	Release string
	Stages  []model.Stage
	// Adopt takes over objects of others.
	Adopt bool
	// Prune deletes objects that earlier values had and these do not have.
	Prune bool
	// Wait applies a stage once those before it work and are validated, and waits until all do.
	// Otherwise nothing is validated.
	Wait bool
	// Out gets a line for each object and, with Wait, for each change of a stage.
	Out io.Writer

	// live holds those objects that exist, and are the orchestrator's or will be, to tell what changes.
	live   map[model.Ref]*unstructured.Unstructured
	policy model.Policy
	// retained are objects that left the values and are not deleted.
	retained []model.Ref
	// left is that of the last plan.
	left []string
	// end ends the controller, with err.
	end func(err error)
}

// Run applies all objects in order, and returns the last status. It changes nothing if an object
// belongs to somebody else. After an error, or the end of the process, the same call goes on from
// there.
func (a *Apply) Run(ctx context.Context, log *slog.Logger) (model.Status, error) {
	if err := a.readLive(ctx); err != nil {
		return model.Status{}, err
	}
	before, err := a.Store.Load(ctx)
	if err != nil {
		return model.Status{}, err
	}
	// The record is in it.
	own := render.Namespace(a.Store.Namespace)
	if a.live[model.RefOf(own)] == nil {
		if _, err := a.Store.Client.Apply(ctx, own, cluster.Mode{}); err != nil {
			return model.Status{}, err
		}
	}
	a.policy = model.Policy{
		Name: a.Release, Release: a.Release, Generation: before.Status.ObservedGeneration + 1, Adopt: a.Adopt, Ungated: !a.Wait, Status: before.Status,
	}
	if !a.Wait {
		a.Stages = slices.Clone(a.Stages)
		for i := range a.Stages {
			a.Stages[i].Validations = nil
		}
	}
	if !a.Prune {
		a.policy.Status.Inventory, a.retained = a.split(before.Status.Inventory)
	}
	err = a.runController(ctx, log)
	return a.policy.Status, err
}

// split returns which objects of an inventory the stages have, and which they do not have.
func (a *Apply) split(inventory []model.Ref) (in, out []model.Ref) {
	desired := map[model.Ref]bool{}
	for _, r := range render.Inventory(a.Stages) {
		desired[r.WithoutVersion()] = true
	}
	for _, r := range inventory {
		if desired[r.WithoutVersion()] {
			in = append(in, r)
		} else {
			out = append(out, r)
		}
	}
	return in, out
}

// readLive reads all objects, and returns an error that names each that belongs to somebody else.
func (a *Apply) readLive(ctx context.Context) error {
	a.live = map[model.Ref]*unstructured.Unstructured{}
	var foreign []error
	for _, r := range render.Inventory(a.Stages) {
		live, err := a.Store.Client.Get(ctx, r)
		switch {
		case err != nil:
			return err
		case live == nil:
		case cluster.Ours(live) || a.Adopt || r.Kind == "Namespace":
			a.live[r] = live
		default:
			foreign = append(foreign, &cluster.ForeignError{Ref: r, Owner: cluster.Owner(live)})
		}
	}
	return errors.Join(foreign...)
}

// Delete deletes what a record lists, in the order of a ClusterPolicy that is deleted, and the
// record. It returns what was not gone when ctx ended.
func Delete(ctx context.Context, store Store, out io.Writer, log *slog.Logger) (left []string, err error) {
	rec, err := store.Load(ctx)
	if err != nil {
		return nil, err
	}
	a := &Apply{Store: store, Out: out, policy: model.Policy{
		Name: rec.Release, Generation: rec.Status.ObservedGeneration, Deleting: true, Status: rec.Status,
	}}
	if len(rec.Status.Inventory) == 0 {
		return nil, store.Delete(ctx)
	}
	if err = a.runController(ctx, log); err != nil {
		err = fmt.Errorf("delete what apply has applied: %w", err)
	}
	return a.left, err
}
