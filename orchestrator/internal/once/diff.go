package once

import (
	"context"
	"fmt"

	"github.com/pmezard/go-difflib/difflib"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
)

// contextLines is the number of unchanged lines around a change.
const contextLines = 3

// Diff writes the changes that Run would make as a unified diff, with the defaults of the API
// server. It changes nothing.
func (a *Apply) Diff(ctx context.Context) error {
	if err := a.readLive(ctx); err != nil {
		return err
	}
	before, err := a.Store.Load(ctx)
	if err != nil {
		return err
	}
	for _, s := range a.Stages {
		for _, o := range s.Objects {
			if err := a.diff(ctx, o); err != nil {
				return err
			}
		}
	}
	desired := map[model.Ref]bool{}
	for _, r := range model.Inventory(a.Stages) {
		desired[r.WithoutVersion()] = true
	}
	for _, r := range before.Status.Inventory {
		if a.Prune && !desired[r.WithoutVersion()] && !pass.Stays(r) {
			fmt.Fprintf(a.Out, "delete %s\n", r)
		}
	}
	return nil
}

func (a *Apply) diff(ctx context.Context, o *unstructured.Unstructured) error {
	r := model.RefOf(o)
	live := a.live[r]
	then, err := a.Store.Client.Apply(ctx, o, cluster.Mode{Known: live != nil && cluster.Ours(live), Adopt: a.Adopt, DryRun: true})
	if apierrors.IsNotFound(err) && live == nil {
		// The namespace does not exist yet.
		then, err = o, nil
	}
	if err != nil {
		return err
	}
	from, err := readable(live)
	if err != nil {
		return err
	}
	to, err := readable(then)
	if err != nil || from == to {
		return err
	}
	return difflib.WriteUnifiedDiff(a.Out, difflib.UnifiedDiff{
		A: difflib.SplitLines(from), B: difflib.SplitLines(to), Context: contextLines,
		FromFile: "now: " + r.String(), ToFile: "then: " + r.String(),
	})
}

// readable returns an object as YAML, without the fields that the API server adds.
func readable(o *unstructured.Unstructured) (string, error) {
	if o == nil {
		return "", nil
	}
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	delete(o.Object, "status")
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("print %s: %w", model.RefOf(o), err)
	}
	return string(text), nil
}
