package charts_test

import (
	"strings"
	"testing"

	"outrigger.dev/charts"
)

// TestDRADriverInstallsTheDRAPlugin has the keys of NVIDIA's chart. Helm and the orchestrator install the DRA plugin with them.
func TestDRADriverInstallsTheDRAPlugin(t *testing.T) {
	theirs := map[string]any{
		"repository": "registry.example.org/gpu", "image": "dra", "version": "26.11.0-debian12",
		"imagePullSecrets": []any{"mirror"}, "imagePullPolicy": "Always",
		"gpus": map[string]any{"kubeletPlugin": map[string]any{
			"env":       []any{map[string]any{"name": "LOG_LEVEL", "value": "debug"}},
			"resources": map[string]any{"limits": map[string]any{"memory": "99Mi"}}, "nodeSelector": map[string]any{"pool": "dra"},
		}},
		"computeDomains": map[string]any{"enabled": false},
	}
	for _, tc := range []struct{ enabled, installed bool }{{true, true}, {false, false}} {
		theirs["enabled"] = tc.enabled
		for name, render := range map[string]func() (string, error){
			"Helm": release{chart: "outrigger", values: map[string]any{"draDriver": theirs, "orchestrator": map[string]any{"enabled": false}}}.render,
			"the orchestrator": func() (string, error) {
				stages, err := charts.Stages(charts.Release{Name: "outrigger", Namespace: "b", Kubernetes: "1.37.0", Values: map[string]any{"draDriver": theirs}})
				var all string
				for _, s := range stages {
					all += s.Manifest
				}
				return all, err
			},
		} {
			out, err := render()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, want := range []string{
				"name: outrigger-dra-plugin\n", "image: registry.example.org/gpu/dra:26.11.0-debian12\n", "memory: 99Mi\n", "pool: dra\n", "name: mirror\n", "kind: DeviceClass\n",
			} {
				if strings.Contains(out, want) != tc.installed {
					t.Errorf("%s, draDriver.enabled=%t: the objects have %q: %t", name, tc.enabled, want, !tc.installed)
				}
			}
		}
	}
	_, err := charts.Stages(charts.Release{Name: "a", Namespace: "b", Kubernetes: "1.37.0", Values: map[string]any{"draDriver": map[string]any{"enable": true}}})
	if err == nil || err.Error() != "draDriver.enable: unknown key; write draDriver.enabled, or remove it" {
		t.Errorf("a typo: %v", err)
	}
}
