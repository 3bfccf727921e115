package controller_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/validation"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
)

// laxCRD returns the CRD of ClusterPolicy without a schema, as one of another version could be.
func laxCRD() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "clusterpolicies.outrigger.dev"},
		"spec": map[string]any{
			"group": "outrigger.dev", "scope": "Cluster",
			"names": map[string]any{"kind": cluster.PolicyKind, "plural": "clusterpolicies"},
			"versions": []any{map[string]any{
				"name": "v1alpha1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

// An inventory that is not read is not an empty one: what it lists would stay for ever.
func TestUnreadableInventoryStopsAll(t *testing.T) {
	r := &rig{clustertest.New(t)}
	r.Create(laxCRD())
	ref := cluster.PolicyRef("cluster-policy")
	r.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind,
		"metadata": map[string]any{"name": ref.Name, "finalizers": []any{"outrigger.dev/cleanup"}},
	}})
	ours := configMap("ours", nil)
	if _, err := r.Client.Apply(t.Context(), ours, cluster.Mode{}); err != nil {
		t.Fatal(err)
	}
	r.Patch(ref, "status", map[string]any{"status": map[string]any{"inventory": []any{"v1 ConfigMap default/ours"}}})
	r.Delete(ref)
	client := r.Connect()
	c := r.run(client, func(o *observe.Observer) controller.Policies {
		if err := o.FollowPolicies(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &controller.InCluster{Client: client, Observer: o, Log: slog.New(slog.DiscardHandler)}
	}, func(model.Policy, string, pools.Kinds) ([]model.Stage, error) { return nil, nil })
	agenttest.Poll(t, "the error", func() bool {
		if r.Get(ref) == nil {
			t.Fatal("the policy is gone, and what it had applied is not")
		}
		err := c.Ready()
		return err != nil && strings.Contains(err.Error(), "status.inventory")
	})
	// Whoever mends the inventory lets it go on.
	r.Patch(ref, "status", map[string]any{"status": map[string]any{"inventory": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "ours"},
	}}})
	agenttest.Poll(t, "the end of the policy", func() bool { return r.Get(ref) == nil })
	if r.Get(model.RefOf(ours)) != nil {
		t.Error("the policy is gone before what it had applied")
	}
}

// The pass that deletes the last object publishes that, and lets the policy go.
func TestAPolicyGoesWithItsLastStatus(t *testing.T) {
	r := &rig{clustertest.New(t)}
	r.Create(laxCRD())
	ref := cluster.PolicyRef("cluster-policy")
	r.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind,
		"metadata": map[string]any{"name": ref.Name, "finalizers": []any{"outrigger.dev/cleanup"}},
	}})
	r.Delete(ref)
	p := observe.PolicyOf(r.Get(ref))
	in := &controller.InCluster{Client: r.Client, Log: slog.New(slog.DiscardHandler)}
	if err := in.Publish(t.Context(), p, model.Status{State: model.StateNotReady}); err != nil {
		t.Fatal(err)
	}
	r.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": "default", "name": "check",
			"labels": map[string]any{"app.kubernetes.io/part-of": "outrigger", validation.LabelCheck: "cuda"},
		},
		"spec": map[string]any{"nodeName": "down", "containers": []any{map[string]any{"name": "check", "image": "check"}}},
	}})
	if err := in.Gone(t.Context(), p); err != nil {
		t.Error(err)
	}
	if r.Get(ref) != nil {
		t.Error("the policy is left")
	}
	if got := r.eventsOf(p); !slices.Contains(got, string(cause.LeftBehind)) {
		t.Errorf("Events %q", got)
	}
}

// eventsOf returns the reasons of the Events of a policy.
func (r *rig) eventsOf(p model.Policy) []string {
	r.Helper()
	list, err := r.Client.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace("default").List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	var reasons []string
	for _, e := range list.Items {
		if name, _, _ := unstructured.NestedString(e.Object, "involvedObject", "name"); name == p.Name {
			reason, _, _ := unstructured.NestedString(e.Object, "reason")
			reasons = append(reasons, reason)
		}
	}
	return reasons
}
