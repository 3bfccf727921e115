// Package once implements the commands apply, status and the dry run. It applies and deletes stages
// with the controller: values files take the place of a ClusterPolicy, and a ConfigMap takes the
// place of its status.
package once

import (
	"context"
	"encoding/json"
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
	// Values are the values that Stages were rendered from.
	Values map[string]any
	Stages []model.Stage
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
		Name: a.Release, Release: a.Release, Values: a.Values, Generation: before.Status.ObservedGeneration + 1, Adopt: a.Adopt, Ungated: !a.Wait, Keep: !a.Prune, Status: before.Status,
	}
	if !a.Wait {
		a.Stages = slices.Clone(a.Stages)
		for i := range a.Stages {
			a.Stages[i].Validations = nil
		}
	}
	err = a.runController(ctx, log)
	return a.policy.Status, err
}

// readLive reads all objects into live. It returns an error that names each object of another
// manager.
func (a *Apply) readLive(ctx context.Context) error {
	a.live = map[model.Ref]*unstructured.Unstructured{}
	var foreign []error
	for _, r := range model.Inventory(a.Stages) {
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

// Name is the name of the ConfigMap with the record of "orchestrator apply".
const Name = "outrigger-inventory"

// key is the key of the ConfigMap's data.
const key = "inventory.json"

// Record is the content of the ConfigMap: names and results. It has no values, because values may
// contain credentials.
type Record struct {
	// Release is the prefix of the objects' names.
	Release string `json:"release"`
	// Stages are the stages of the last apply.
	Stages []Stage `json:"stages"`
	// Status is the status of the last pass, with the inventory of all applied objects.
	Status model.Status `json:"status"`
}

// Stage lists the objects of a stage, in apply order.
type Stage struct {
	Name    string      `json:"name"`
	Pool    string      `json:"pool,omitempty"`
	Needs   []string    `json:"needs,omitempty"`
	Objects []model.Ref `json:"objects"`
}

func stagesOf(stages []model.Stage) []Stage {
	var all []Stage
	for _, s := range stages {
		all = append(all, Stage{Name: s.Name, Pool: s.Pool, Needs: s.Needs, Objects: model.Inventory([]model.Stage{s})})
	}
	return all
}

// Store reads and writes the record of one namespace.
type Store struct {
	Client    *cluster.Client
	Namespace string
}

func (s Store) ref() model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Namespace, Name: Name}
}

// Load returns the record, or an empty one if the ConfigMap does not exist.
func (s Store) Load(ctx context.Context) (Record, error) {
	var rec Record
	o, err := s.Client.Get(ctx, s.ref())
	if o == nil || err != nil {
		return rec, err
	}
	text, _, err := unstructured.NestedString(o.Object, "data", key)
	if err == nil {
		err = json.Unmarshal([]byte(text), &rec)
	}
	if err != nil {
		return rec, fmt.Errorf("read %s: %w; it lists what the orchestrator has applied: restore it, or delete it and run apply --adopt", s.ref(), err)
	}
	return rec, nil
}

// Save writes the record.
func (s Store) Save(ctx context.Context, rec Record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode %s: %w", s.ref(), err)
	}
	r := s.ref()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": r.APIVersion, "kind": r.Kind,
		"metadata": map[string]any{
			"name": r.Name, "namespace": r.Namespace, "labels": map[string]any{render.ManagedBy: model.FieldManager},
		},
		"data": map[string]any{key: string(text)},
	}}
	_, err = s.Client.Apply(ctx, o, cluster.Mode{})
	return err
}

// Delete deletes the ConfigMap.
func (s Store) Delete(ctx context.Context) error { return s.Client.Delete(ctx, s.ref(), "") }
