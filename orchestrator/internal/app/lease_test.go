package app_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
)

// client-go would log each attempt, without the fix.
func TestAnUnreachableAPIServerIsNamedOnce(t *testing.T) {
	t.Parallel()
	p := agenttest.Start(t, agenttest.Command(t, nil, "run", "--listen=", "--kubeconfig="+unreachable(t)))
	p.Said("cannot access the lease, retrying", "http://127.0.0.1:1", "connection refused", "check that it runs")
	p.Stop()
	if strings.Contains(p.Log.String(), "client-go") {
		t.Errorf("client-go logs too:\n%s", p.Log)
	}
}

// Two installations in two namespaces would undo each other's objects.
func TestOneOrchestratorOfAClusterWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(namespace string) *agenttest.Process {
		return agenttest.Start(t, agenttest.Command(t, nil, "run", "--listen=", "--kubeconfig="+w.config, "--namespace="+namespace))
	}
	holder := func(o *unstructured.Unstructured) string {
		if o == nil {
			return ""
		}
		id, _, _ := unstructured.NestedString(o.Object, "spec", "holderIdentity")
		return id
	}
	lease := model.Ref{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "default", Name: "outrigger"}
	first := run("first")
	w.until("is held", lease, func(o *unstructured.Unstructured) bool { return holder(o) != "" })
	second := run("second")
	second.Said("holder=" + holder(w.Get(lease)))
	// The Lease goes with the last one that works.
	second.Stop()
	first.Stop()
}
