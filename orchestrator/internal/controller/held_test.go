package controller_test

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/controller"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/pkg/agent/agenttest"
)

// TestADeletedDefinitionDeletesNothing deletes the CRD of ClusterPolicy, which also deletes the policy, and restores both.
func TestADeletedDefinitionDeletesNothing(t *testing.T) {
	t.Parallel()
	r := &rig{clustertest.New(t)}
	log := slog.New(slog.DiscardHandler)
	if err := definition.Apply(t.Context(), r.Client, log); err != nil {
		t.Fatal(err)
	}
	ref, crd := cluster.PolicyRef("cluster-policy"), model.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: definition.Name}
	create := func() { r.Create(&unstructured.Unstructured{Object: policyObject(ref)}) }
	create()
	ours := configMap("ours", nil)
	client := r.Connect()
	r.run(client, func(o *observe.Observer) controller.Policies {
		if err := o.FollowPolicies(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &controller.InCluster{Client: client, Observer: o, Log: log}
	}, func(model.Policy, string, pools.Kinds) ([]model.Stage, error) {
		return []model.Stage{{Name: "a", Objects: []*unstructured.Unstructured{ours}}}, nil
	})
	listed := func() bool { o := r.Get(ref); return o != nil && len(observe.PolicyOf(o).Status.Inventory) == 1 }
	agenttest.Poll(t, "the object of the policy", listed)
	applied := r.Get(model.RefOf(ours)).GetUID()

	r.Delete(crd)
	agenttest.Poll(t, "the message in the status", func() bool {
		message := ""
		for _, c := range observe.PolicyOf(r.Get(ref)).Status.Conditions {
			message += c.Message
		}
		return strings.Contains(message, "somebody has deleted the definition "+definition.Name) && strings.Contains(message, "run helm upgrade")
	})
	if o := r.Get(ref); o.GetDeletionTimestamp() == nil {
		t.Error("the policy is not being deleted")
	}

	before := r.Get(crd).GetUID()
	if err := definition.Apply(t.Context(), r.Connect(), log); err != nil {
		t.Fatal(err)
	}
	if o := r.Get(crd); o.GetUID() == before || o.GetDeletionTimestamp() != nil {
		t.Errorf("the definition is not new: %v", o.Object["metadata"])
	}
	create()
	agenttest.Poll(t, "the object of the new policy", listed)
	if o := r.Get(model.RefOf(ours)); o == nil || o.GetUID() != applied {
		t.Errorf("the object was deleted: %v", o)
	}
}

func policyObject(r model.Ref) map[string]any {
	return map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "metadata": map[string]any{"name": r.Name}, "spec": map[string]any{}}
}
