package uninstall

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestOfNode(t *testing.T) {
	cases := map[string]struct {
		node map[string]any
		want []string
	}{
		"a node that agents have cleaned up": {
			node: map[string]any{"metadata": map[string]any{"name": "n", "labels": map[string]any{
				"kubernetes.io/hostname": "n", "feature.node.kubernetes.io/pci-10de.present": "true",
			}}},
		},
		"labels that people set stay": {
			node: map[string]any{"metadata": map[string]any{"name": "n", "labels": map[string]any{
				"nvidia.com/gpu.deploy.device-plugin": "false", "nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/device-plugin.config": "a",
			}}},
		},
		"what agents have written": {
			node: map[string]any{
				"metadata": map[string]any{"name": "n", "labels": map[string]any{"nvidia.com/gpu.present": "true"}, "annotations": map[string]any{"outrigger.dev/x": "y"}},
				"spec":     map[string]any{"taints": []any{map[string]any{"key": "outrigger.dev/gpu-not-ready"}, map[string]any{"key": "other"}}},
				"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready"}, map[string]any{"type": "GPUReady"}}},
			},
			want: []string{
				"node n: annotation outrigger.dev/x", "node n: condition GPUReady", "node n: label nvidia.com/gpu.present",
				"node n: taint outrigger.dev/gpu-not-ready",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ofNode(&unstructured.Unstructured{Object: c.node})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOfAgent(t *testing.T) {
	owned := func(kind string, labels map[string]string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		yes := true
		if kind != "" {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: kind, Name: "x", Controller: &yes}})
		}
		o.SetLabels(labels)
		return o
	}
	cases := map[string]struct {
		pod  *unstructured.Unstructured
		want bool
	}{
		"an agent":                      {owned("DaemonSet", nil), true},
		"a validation":                  {owned("", map[string]string{"outrigger.dev/validation": "x"}), true},
		"the orchestrator":              {owned("ReplicaSet", nil), false},
		"the Job that Helm runs before": {owned("Job", nil), false},
	}
	for name, c := range cases {
		if got := ofAgent(c.pod); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
