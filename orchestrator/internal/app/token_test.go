package app_test

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
)

// testToken tries, with the token of the orchestrator and on the real API server, what gives an attacker more than
// the workloads of the release.
func testToken(w *world) {
	client, err := cluster.Open(cluster.Kubeconfig{Path: w.role}, "test")
	if err != nil {
		w.Fatal(err)
	}
	const forbidden = "is forbidden: User"
	object := func(api, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
		o := model.Ref{APIVersion: api, Kind: kind, Namespace: namespace, Name: name}.Object()
		maps.Copy(o.Object, fields)
		return o
	}
	plugin := w.Get(daemonSet("device-plugin"))
	containers, _, _ := unstructured.NestedSlice(plugin.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["image"] = "thief" //nolint:forcetypeassert // the API server has accepted it
	if err := unstructured.SetNestedSlice(plugin.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		w.Fatal(err)
	}
	plugin.SetManagedFields(nil)
	plugin.SetResourceVersion("")
	pod := func(spec map[string]any) *unstructured.Unstructured {
		return object("v1", "Pod", agents, "thief", map[string]any{"spec": spec})
	}
	image := func(name string) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"name": "a", "image": name}}}
	}
	folder := image("outrigger.dev/device-plugin:1")
	folder["volumes"] = []any{map[string]any{"name": "a", "hostPath": map[string]any{"path": "/etc/kubernetes"}}}
	account := image("outrigger.dev/device-plugin:1")
	account["serviceAccountName"] = "default"
	account["automountServiceAccountToken"] = true
	rules := map[string]any{"rules": []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"*"}}}}
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"an account":               {object("v1", "ServiceAccount", agents, "thief", nil), forbidden},
		"a Role":                   {object("rbac.authorization.k8s.io/v1", "Role", agents, "thief", rules), forbidden},
		"a ClusterRole":            {object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "thief", rules), forbidden},
		"a policy":                 {object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "thief", nil), forbidden},
		"a RuntimeClass":           {object("node.k8s.io/v1", "RuntimeClass", "", "nvidia", map[string]any{"handler": "thief"}), forbidden},
		"a Namespace":              {object("v1", "Namespace", "", "thief", nil), forbidden},
		"a Lease":                  {object("coordination.k8s.io/v1", "Lease", "kube-system", "thief", nil), forbidden},
		"a Node":                   {object("v1", "Node", "", "thief", nil), forbidden},
		"the CRD of ClusterPolicy": {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", definition.Name, nil), forbidden},
		"another CRD":              {object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "thiefs.example.org", nil), forbidden},
		"a ConfigMap of any name":  {object("v1", "ConfigMap", agents, "thief", nil), forbidden},
		"a ConfigMap elsewhere":    {object("v1", "ConfigMap", "kube-system", "thief", nil), forbidden},
		"a DaemonSet of any name":  {object("apps/v1", "DaemonSet", agents, "thief", nil), forbidden},
		"a DaemonSet elsewhere":    {object("apps/v1", "DaemonSet", "kube-system", "gpu-operator-device-plugin", nil), forbidden},
		"an agent's other image":   {plugin, "the Helm release does not have these images: thief"},
		"a pod with another image": {pod(image("thief")), "the Helm release does not have these images: thief"},
		"a pod with a folder":      {pod(folder), "the Helm release does not have these folders of the host: /etc/kubernetes"},
		"a pod with a token":       {pod(account), "the Helm release does not have the account default"},
	} {
		// Each kind is written as the orchestrator does it: pods are created, all others are applied.
		if c.object.GetKind() == "Pod" {
			err = client.Create(w.Context(), c.object)
		} else {
			_, err = client.Apply(w.Context(), c.object, cluster.Mode{Known: true, DryRun: true})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			w.Errorf("%s: the error is %v, want one that has %q", name, err, c.want)
		}
	}
	person := w.byPerson("configmaps", "ConfigMap")
	defer w.Delete(person)
	for _, r := range []model.Ref{person, {APIVersion: "v1", Kind: "ServiceAccount", Namespace: agents, Name: "gpu-operator-device-plugin"}} {
		if err := client.Delete(w.Context(), r, ""); err == nil {
			w.Errorf("the token deletes %s", r)
		}
	}
}

// testTypo tries a ClusterPolicy with an unknown key.
func testTypo(w *world) {
	typo := newPolicy("typo", map[string]any{"devicePlugin": map[string]any{"enable": true}})
	agenttest.Poll(w, "the rejection of a typo", func() bool {
		_, err := w.Client.Apply(w.Context(), typo, cluster.Mode{Known: true, DryRun: true})
		if err != nil && !strings.Contains(err.Error(), "unknown keys in spec: devicePlugin.enable; kubectl explain gpupolicy.spec describes the known keys") {
			w.Fatal(err)
		}
		return err != nil
	})
	known := newPolicy("known", map[string]any{"devicePlugin": map[string]any{"enabled": true}, "pools": []any{}, "mig": nil})
	if _, err := w.Client.Apply(w.Context(), known, cluster.Mode{Known: true, DryRun: true}); err != nil {
		w.Error(err)
	}
}
