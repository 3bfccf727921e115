package app_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	w := &world{Cluster: c, config: config, role: config}
	w.must("apply-crd")
	return w
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

// eventRole is an object that only "orchestrator apply" applies.
func eventRole() model.Ref {
	return model.Ref{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespace: "default", Name: "gpu-operator-device-plugin." + agents}
}

func service() model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "Service", Namespace: agents, Name: "nvidia-dcgm-exporter"}
}

// account is an object of the Helm release.
func account() model.Ref {
	return model.Ref{APIVersion: "v1", Kind: "ServiceAccount", Namespace: agents, Name: "gpu-operator-device-plugin"}
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
	w.withRole(map[string]any{})
	stop := w.start()
	policy := cluster.PolicyRef("gpu-operator")
	w.Create(newPolicy(policy.Name, map[string]any{}))
	w.until("is applied", daemonSet("device-plugin"), exists)
	w.until("is applied", service(), exists)

	t.Run("drift is repaired", func(t *testing.T) {
		w := w.in(t)
		selector, _, _ := unstructured.NestedStringMap(w.Get(service()).Object, "spec", "selector")
		w.Patch(service(), "", map[string]any{"spec": map[string]any{"selector": nil}})
		w.until("has its selector again", service(), func(o *unstructured.Unstructured) bool {
			now, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector")
			return len(selector) > 0 && maps.Equal(now, selector)
		})
		w.Delete(service())
		w.until("is there again", service(), exists)
	})
	t.Run("the policies of the release accept its Events", func(t *testing.T) {
		w := w.in(t)
		events := w.Client.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace("default")
		agenttest.Poll(w, "an Event about the drift", func() bool {
			list, err := events.List(w.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool { return o.Object["reason"] == "DriftRepaired" })
		})
	})
	t.Run("the token can do no more", func(t *testing.T) { testToken(w.in(t)) })
	t.Run("a typo is rejected", func(t *testing.T) { testTypo(w.in(t)) })
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
		if w.Get(account()) == nil {
			t.Error("the account of the release is gone, and the agent cannot clean up its nodes")
		}
		if w.Get(daemonSet("container-toolkit")) == nil {
			t.Error("container-toolkit is gone too")
		}
	})
	t.Run("values that are not accepted change nothing", func(t *testing.T) {
		w := w.in(t)
		w.Patch(policy, "", map[string]any{"spec": map[string]any{"dcgm": map[string]any{"enabled": true}}})
		w.until("says so", policy, func(o *unstructured.Unstructured) bool {
			text, err := o.MarshalJSON()
			return err == nil && strings.Contains(string(text), model.ReasonValuesRefused)
		})
		w.Patch(policy, "", map[string]any{"spec": map[string]any{"dcgm": nil}})
		if w.Get(daemonSet("container-toolkit")) == nil {
			t.Error("container-toolkit is gone")
		}
	})
	stop()
	stop = w.start()
	t.Run("a deleted policy takes all with it, before delete ends", func(t *testing.T) {
		w := w.in(t)
		person := w.byPerson("configmaps", "ConfigMap")
		if err := agenttest.Command(t, nil, "delete", "--timeout=3m", "--kubeconfig="+w.role).Run(); err != nil {
			t.Error(err)
		}
		if w.Get(policy) != nil {
			t.Error("the policy is left")
		}
		if w.Get(person) == nil {
			t.Error("the object of a person is gone")
		}
		for _, r := range []model.Ref{daemonSet("container-toolkit"), daemonSet("feature-discovery"), service()} {
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
