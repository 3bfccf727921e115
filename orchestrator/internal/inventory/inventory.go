// Package inventory keeps the names of all objects that the orchestrator has applied
// without a ClusterPolicy, in a ConfigMap of the operator's namespace. It is written before
// the objects are, so that a process that was killed leaves nothing that is not listed.
package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
)

// Name is the name of the ConfigMap.
const Name = "outrigger-inventory"

// key is the key of the ConfigMap's data.
const key = "inventory.json"

// Inventory is what the ConfigMap says.
type Inventory struct {
	// Release is the name of the release, of which the objects have their names.
	Release string  `json:"release"`
	Stages  []Stage `json:"stages"`
}

// Stage lists the objects of a stage, in the order in which they were applied. Objects that
// left the values, and are still to be deleted, are in a stage without a name.
type Stage struct {
	Name    string      `json:"name"`
	Needs   []string    `json:"needs,omitempty"`
	Objects []model.Ref `json:"objects"`
}

// Of returns the inventory of stages.
func Of(release string, stages []model.Stage) Inventory {
	inv := Inventory{Release: release}
	for _, s := range stages {
		inv.Stages = append(inv.Stages, Stage{Name: s.Name, Needs: s.Needs, Objects: render.Inventory([]model.Stage{s})})
	}
	return inv
}

// Refs returns all objects in order.
func (i Inventory) Refs() []model.Ref {
	var refs []model.Ref
	for _, s := range i.Stages {
		refs = append(refs, s.Objects...)
	}
	return refs
}

// With returns the inventory with more objects, which no longer have a stage. They come first,
// so that they are deleted last.
func (i Inventory) With(refs []model.Ref) Inventory {
	known := i.Refs()
	refs = slices.DeleteFunc(slices.Clone(refs), func(r model.Ref) bool { return slices.Contains(known, r) })
	if len(refs) > 0 {
		i.Stages = slices.Insert(slices.Clone(i.Stages), 0, Stage{Objects: refs})
	}
	return i
}

// Store reads and writes the inventory of one namespace.
type Store struct {
	Client    *cluster.Client
	Namespace string
}

func (s Store) ref() model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Namespace, Name: Name}
}

// Load returns the inventory, an empty one if there is none.
func (s Store) Load(ctx context.Context) (Inventory, error) {
	var inv Inventory
	o, err := s.Client.Get(ctx, s.ref())
	if o == nil || err != nil {
		return inv, err
	}
	text, _, err := unstructured.NestedString(o.Object, "data", key)
	if err == nil {
		err = json.Unmarshal([]byte(text), &inv)
	}
	if err != nil {
		return inv, fmt.Errorf("read %s: %w; it lists what the orchestrator has applied: restore it, or delete it and run apply --adopt", s.ref(), err)
	}
	return inv, nil
}

// Save writes the inventory.
func (s Store) Save(ctx context.Context, inv Inventory) error {
	text, err := json.Marshal(inv)
	if err != nil {
		return fmt.Errorf("encode inventory: %w", err)
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
