package once

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
)

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
		all = append(all, Stage{Name: s.Name, Pool: s.Pool, Needs: s.Needs, Objects: render.Inventory([]model.Stage{s})})
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
