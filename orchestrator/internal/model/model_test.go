package model_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
)

// A label that is not kept matches no selector: the validation would wait for ever.
func TestNodeLabelsHasThoseOfValidations(t *testing.T) {
	template := &unstructured.Unstructured{Object: map[string]any{"template": map[string]any{"spec": map[string]any{
		"nodeSelector": map[string]any{"team": "a"},
		"affinity": map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
			"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "zone", "operator": "Exists"}}}},
		}}},
	}}}}
	got := model.NodeLabels([]model.Stage{
		{NodeSelector: map[string]string{"pool": "edge"}},
		{Validations: []model.Check{{Template: template}}},
	})
	if want := []string{"pool", "team", "zone"}; !slices.Equal(got, want) {
		t.Errorf("the labels are %v, want %v", got, want)
	}
}
