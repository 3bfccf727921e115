package app

import (
	"log/slog"
	"slices"
	"testing"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/once"
)

// TestIgnored has a policy with values of NVIDIA's chart.
func TestIgnored(t *testing.T) {
	o := &operator{store: once.Store{Namespace: "gpu-operator"}, log: slog.New(slog.DiscardHandler)}
	ignored := func(values map[string]any) []string {
		return o.ignored(model.Policy{Name: "cluster-policy", Release: "gpu", Values: values}, "v1.36.0")
	}
	if got := ignored(nil); len(got) > 0 {
		t.Errorf("without such values: %q", got)
	}
	got := ignored(map[string]any{
		"driver": map[string]any{"enabled": true, "repository": "r", "version": "v", "startupProbe": map[string]any{"periodSeconds": int64(1)}},
		"psp":    map[string]any{"enabled": true},
	})
	want := []string{"driver.startupProbe: the agent has its own probes; remove it", "psp: Kubernetes has no PodSecurityPolicies any more; remove it"}
	if !slices.Equal(got, want) {
		t.Errorf("values without effect: %q, want %q", got, want)
	}
}
