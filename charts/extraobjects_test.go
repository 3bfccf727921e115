package charts_test

import (
	"strings"
	"testing"

	"outrigger.dev/charts"
)

// TestExtraObjects has other objects in the values. Helm installs them, also with the orchestrator, whose policy does not have them, and
// rejects them.
func TestExtraObjects(t *testing.T) {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "extra-{{ .Release.Name }}"}}
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra-{{ .Release.Name }}\n"
	for name, extra := range map[string]any{"a map": object, "a text": text} {
		for _, enabled := range []bool{true, false} {
			values := map[string]any{"extraObjects": []any{extra}, "orchestrator": map[string]any{"enabled": enabled}}
			out, err := release{chart: "outrigger", values: values}.render()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(out, "extra-outrigger") != 1 || strings.Contains(out, "extraObjects:") {
				t.Errorf("%s, orchestrator.enabled=%t: the object is not installed once, by Helm", name, enabled)
			}
		}
		_, err := charts.Stages(charts.Release{Name: "a", Namespace: "b", Kubernetes: "1.37.0", Values: map[string]any{"extraObjects": []any{extra}}})
		if err == nil || !strings.Contains(err.Error(), "extraObjects: the orchestrator has no right to apply other objects; set them in") {
			t.Errorf("%s in a policy: %v", name, err)
		}
	}
}
