package app

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/once"
)

// TestExtra has a policy with values of NVIDIA's chart, in a cluster without and with objects of NVIDIA's GPU Operator.
func TestExtra(t *testing.T) {
	c := clustertest.New(t)
	o := &operator{store: once.Store{Client: c.Client, Namespace: "gpu-operator"}, log: slog.New(slog.DiscardHandler)}
	conditions := func(values map[string]any) (text string, again bool) {
		all, again := o.extra(t.Context(), model.Policy{Name: "cluster-policy", Release: "gpu", Values: values}, "v1.36.0")
		for _, c := range all {
			text += c.Type + " " + c.Reason + " " + c.Message + "\n"
		}
		return text, again
	}
	foreign := map[string]any{
		"driver": map[string]any{"enabled": true, "repository": "r", "version": "v", "startupProbe": map[string]any{"periodSeconds": int64(1)}},
		"psp":    map[string]any{"enabled": true},
	}
	if text, again := conditions(nil); text != "" || again {
		t.Errorf("without such values and objects: %q, again %t", text, again)
	}
	text, again := conditions(foreign)
	for _, want := range []string{"ValuesIgnored WithoutEffect driver.startupProbe: the agent has its own probes; remove it. psp: "} {
		if !strings.HasPrefix(text, want) || strings.Count(text, "\n") != 1 || again {
			t.Errorf("values without effect: %q, again %t, want %q", text, again, want)
		}
	}
	c.Create(nvidiaCRD("nvidiadrivers", "NVIDIADriver"))
	c.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": map[string]any{"name": "default"},
	}})
	text, again = conditions(nil)
	if want := "OtherOperator ObjectsFound NVIDIA's GPU Operator has objects in this cluster: NVIDIADriver default (group nvidia.com)"; !strings.HasPrefix(text, want) || !again {
		t.Errorf("with an object of NVIDIA: %q, again %t, want %q", text, again, want)
	}
}

// nvidiaCRD returns the CRD of a kind of NVIDIA's GPU Operator, without a schema.
func nvidiaCRD(plural, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".nvidia.com"},
		"spec": map[string]any{
			"group": "nvidia.com", "scope": "Cluster", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}
