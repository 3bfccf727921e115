// Package once does to a cluster what a person or a pipeline asks for, and ends: it applies
// stages without a controller, and shows what would change.
package once

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/inventory"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/uninstall"
)

// Apply describes one application of stages.
type Apply struct {
	Client  *cluster.Client
	Store   inventory.Store
	Release string
	Stages  []model.Stage
	// Adopt takes over objects of others.
	Adopt bool
	// Prune deletes objects that earlier values had and these do not have.
	Prune bool
	// Out gets a line for each object.
	Out io.Writer

	// live holds those objects that exist, and are the orchestrator's or will be.
	live map[model.Ref]*unstructured.Unstructured
}

// Run applies all objects in order. It changes nothing if an object belongs to somebody else.
// After an error, or the end of the process, the same call goes on from there.
func (a *Apply) Run(ctx context.Context) error {
	if err := a.look(ctx); err != nil {
		return err
	}
	before, err := a.Store.Load(ctx)
	if err != nil {
		return err
	}
	after := inventory.Of(a.Release, a.Stages)
	if err := a.namespaces(ctx); err != nil {
		return err
	}
	if err := a.Store.Save(ctx, after.With(before.Refs())); err != nil {
		return err
	}
	for _, s := range a.Stages {
		for _, o := range s.Objects {
			if o.GetKind() == "Namespace" {
				continue
			}
			if err := a.apply(ctx, o); err != nil {
				return err
			}
		}
	}
	gone := slices.DeleteFunc(before.Refs(), func(r model.Ref) bool { return slices.Contains(after.Refs(), r) })
	if !a.Prune {
		return a.Store.Save(ctx, after.With(gone))
	}
	if len(gone) > 0 {
		if _, err := uninstall.Run(ctx, a.Client, gone, a.Out); err != nil {
			return err
		}
	}
	return a.Store.Save(ctx, after)
}

// namespaces applies the namespaces: the inventory is in one of them.
func (a *Apply) namespaces(ctx context.Context) error {
	for _, s := range a.Stages {
		for _, o := range s.Objects {
			if o.GetKind() != "Namespace" {
				continue
			}
			if err := a.apply(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// look reads all objects, and returns an error that names each that belongs to somebody else.
func (a *Apply) look(ctx context.Context) error {
	a.live = map[model.Ref]*unstructured.Unstructured{}
	var foreign []error
	for _, s := range a.Stages {
		for _, o := range s.Objects {
			r := model.RefOf(o)
			live, err := a.Client.Get(ctx, r)
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
	}
	return errors.Join(foreign...)
}

func (a *Apply) apply(ctx context.Context, o *unstructured.Unstructured) error {
	r := model.RefOf(o)
	live := a.live[r]
	applied, err := a.Client.Apply(ctx, o, cluster.Mode{Known: live != nil && cluster.Ours(live), Adopt: a.Adopt})
	if err != nil {
		return err
	}
	from, err := readable(live)
	if err != nil {
		return err
	}
	to, err := readable(applied)
	switch {
	case err != nil:
		return err
	case live == nil:
		fmt.Fprintf(a.Out, "created %s\n", r)
	case from != to:
		fmt.Fprintf(a.Out, "changed %s\n", r)
	default:
		fmt.Fprintf(a.Out, "unchanged %s\n", r)
	}
	return nil
}
