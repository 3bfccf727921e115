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

// Apply describes one application of stages.
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

	// live holds those objects that exist, and are the orchestrator's or will be.
	live map[model.Ref]*unstructured.Unstructured
}

// Run applies all objects in order, and returns the last status. It changes nothing if an object
// belongs to somebody else. After an error, or the end of the process, the same call goes on from
// there.
func (a *Apply) Run(ctx context.Context, log *slog.Logger) (model.Status, error) {
	if err := a.look(ctx); err != nil {
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
	f := a.file(before)
	err = f.run(ctx, log)
	return f.policy.Status, err
}

// file returns the policy that is applied.
func (a *Apply) file(before Record) *file {
	f := &file{store: a.Store, stages: slices.Clone(a.Stages), live: a.live, out: a.Out, policy: model.Policy{
		Name: a.Release, Release: a.Release, Generation: before.Status.ObservedGeneration + 1, Adopt: a.Adopt, Ungated: !a.Wait,
		Status: before.Status,
	}}
	if !a.Wait {
		for i := range f.stages {
			f.stages[i].Validations = nil
		}
	}
	if !a.Prune {
		f.policy.Status.Inventory, f.stays = a.split(before.Status.Inventory)
	}
	return f
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

// look reads all objects, and returns an error that names each that belongs to somebody else.
func (a *Apply) look(ctx context.Context) error {
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
	f := &file{store: store, out: out, policy: model.Policy{
		Name: rec.Release, Generation: rec.Status.ObservedGeneration, Deleting: true, Status: rec.Status,
	}}
	if len(rec.Status.Inventory) == 0 {
		return nil, store.Delete(ctx)
	}
	if err = f.run(ctx, log); err != nil {
		err = fmt.Errorf("delete what apply has applied: %w", err)
	}
	return f.left, err
}
