// Package once implements the commands apply, status and the dry run. It applies and deletes stages
// with the controller: values files take the place of a ClusterPolicy, and a ConfigMap takes the
// place of its status.
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

// Apply applies stages once. For the controller, it is a policy from values files.
type Apply struct {
	Store   Store
	Release string
	Stages  []model.Stage
	// Adopt takes over objects of other programs.
	Adopt bool
	// Prune deletes the objects of earlier values that Stages do not have.
	Prune bool
	// Wait applies a stage after the stages before it are ready and validated, and waits until all
	// are. Without Wait, validations do not run.
	Wait bool
	// Out receives a line for each object and, with Wait, for each change of a stage.
	Out io.Writer

	// live holds the existing objects that the orchestrator owns or adopts. A comparison with them
	// shows what changes.
	live   map[model.Ref]*unstructured.Unstructured
	policy model.Policy
	// retained are objects that the values no longer have, and that are not deleted.
	retained []model.Ref
	// left lists the objects that still have to disappear, as the last plan says.
	left []string
	// end stops the controller. runController then returns err.
	end func(err error)
}

// Run applies all objects in order, and returns the last status. It changes nothing if another
// program manages an object. After an error or an interruption, the next Run continues.
func (a *Apply) Run(ctx context.Context, log *slog.Logger) (model.Status, error) {
	if err := a.readLive(ctx); err != nil {
		return model.Status{}, err
	}
	before, err := a.Store.Load(ctx)
	if err != nil {
		return model.Status{}, err
	}
	// The namespace has to exist before the record in it.
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

// split splits an inventory into the objects that the stages have, and the objects that they do not
// have.
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

// readLive reads all objects into live. It returns an error that names each object of another
// manager.
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

// Delete deletes the objects of the record, in the same order as for a deleted ClusterPolicy, and
// then the record. It returns the objects that still exist when ctx ends.
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
		err = fmt.Errorf("delete the applied objects: %w", err)
	}
	return a.left, err
}
