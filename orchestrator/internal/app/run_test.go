package app_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube/apitest"
)

// world is a cluster with an orchestrator.
type world struct {
	clustertest.Cluster
	// config is the kubeconfig of a person with all rights, and role that of orchestrators.
	config, role string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := clustertest.New(t)
	config := apitest.Kubeconfig(t, c.REST)
	return &world{Cluster: c, config: config, role: config}
}

// start runs an orchestrator, and returns what ends it.
func (w *world) start() (stop func()) {
	w.Helper()
	return agenttest.Start(w, agenttest.Command(w, nil, "run", "--listen=", "--kubeconfig="+w.role)).Stop
}

// until waits until ok returns true of an object, which is nil while it does not exist.
func (w *world) until(what string, r model.Ref, ok func(*unstructured.Unstructured) bool) {
	w.Helper()
	agenttest.Poll(w, r.String()+" "+what, func() bool { return ok(w.Get(r)) })
}

func exists(o *unstructured.Unstructured) bool  { return o != nil }
func missing(o *unstructured.Unstructured) bool { return o == nil }

func newPolicy(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cluster.PolicyAPI, "kind": cluster.PolicyKind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func newNamespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
}

const agents = "gpu-operator-resources"

func daemonSet(name string) model.Ref {
	return model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: agents, Name: "gpu-operator-" + name}
}

func eventRole() model.Ref {
	return model.Ref{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespace: "default", Name: "gpu-operator-device-plugin." + agents}
}

// state returns status.state of a policy.
func state(o *unstructured.Unstructured) string {
	if o == nil {
		return "missing"
	}
	s, _, _ := unstructured.NestedString(o.Object, "status", "state")
	return s
}

func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(newNamespace("gpu-operator"))
	w.withRole()
	stop := w.start()
	policy := cluster.PolicyRef("gpu-operator")
	w.Create(newPolicy(policy.Name, map[string]any{}))
	w.until("is applied", daemonSet("device-plugin"), exists)
	w.until("is applied", eventRole(), exists)

	t.Run("drift is repaired", func(t *testing.T) {
		w := w.in(t)
		w.Patch(eventRole(), "", map[string]any{"rules": []any{}})
		w.until("has its rules again", eventRole(), func(o *unstructured.Unstructured) bool {
			rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
			return len(rules) > 0
		})
		w.Delete(eventRole())
		w.until("is there again", eventRole(), exists)
	})
	t.Run("a second policy is ignored", func(t *testing.T) {
		w := w.in(t)
		w.Create(newPolicy("other", map[string]any{}))
		w.until("is ignored", cluster.PolicyRef("other"), func(o *unstructured.Unstructured) bool { return state(o) == model.StateIgnored })
		w.Delete(cluster.PolicyRef("other"))
		w.until("is gone", cluster.PolicyRef("other"), missing)
	})
	t.Run("only what changed is written", func(t *testing.T) {
		w := w.in(t)
		before := w.Get(daemonSet("container-toolkit")).GetResourceVersion()
		w.Patch(policy, "", map[string]any{"spec": map[string]any{"devicePlugin": map[string]any{"logLevel": "debug"}}})
		w.until("has the new value", daemonSet("device-plugin"), func(o *unstructured.Unstructured) bool {
			text, err := o.MarshalJSON()
			return err == nil && strings.Contains(string(text), `"debug"`)
		})
		if after := w.Get(daemonSet("container-toolkit")).GetResourceVersion(); after != before {
			t.Errorf("container-toolkit has resourceVersion %s, and had %s", after, before)
		}
	})
	t.Run("what left the values is deleted", func(t *testing.T) {
		w := w.in(t)
		w.Patch(policy, "", map[string]any{"spec": map[string]any{"devicePlugin": map[string]any{"enabled": false}}})
		w.until("is gone", daemonSet("device-plugin"), missing)
		w.until("is gone", eventRole(), missing)
		if w.Get(daemonSet("container-toolkit")) == nil {
			t.Error("container-toolkit is gone too")
		}
	})
	t.Run("values that are not accepted change nothing", func(t *testing.T) {
		w := w.in(t)
		w.Patch(policy, "", map[string]any{"spec": map[string]any{"toolkit": map[string]any{"instalDir": "/x"}}})
		w.until("says so", policy, func(o *unstructured.Unstructured) bool {
			text, err := o.MarshalJSON()
			return err == nil && strings.Contains(string(text), model.ReasonValuesRefused)
		})
		w.Patch(policy, "", map[string]any{"spec": map[string]any{"toolkit": nil}})
		if w.Get(daemonSet("container-toolkit")) == nil {
			t.Error("container-toolkit is gone")
		}
	})
	stop()
	stop = w.start()
	t.Run("a deleted policy takes all with it, before delete ends", func(t *testing.T) {
		w := w.in(t)
		w.byPerson("configmaps", "ConfigMap")
		if out := w.must("delete", "--timeout=3m"); !strings.Contains(out, "left: Namespace "+agents+" is kept") {
			t.Errorf("delete printed\n%s", out)
		}
		if w.Get(policy) != nil {
			t.Error("the policy is left")
		}
		if w.Get(agentsNamespace()) == nil {
			t.Error("the namespace is gone, with what a person had in it")
		}
		for _, r := range []model.Ref{daemonSet("container-toolkit"), daemonSet("feature-discovery"), eventRole()} {
			if w.Get(r) != nil {
				t.Errorf("%s is left", r)
			}
		}
	})
	stop()
}

func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.Cluster = w.Cluster.In(t)
	return &inner
}
