package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/agent/agenttest"
)

// withRole gives the orchestrators that start from now on the rights of the chart, and no others.
func (w *world) withRole() {
	w.Helper()
	version, err := w.Client.Version(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	chart, err := charts.Load("orchestrator")
	if err != nil {
		w.Fatal(err)
	}
	manifest, err := charts.Render(chart, charts.Release{
		Name: "gpu-operator", Namespace: "gpu-operator", Kubernetes: version, Values: map[string]any{"global": map[string]any{"namespace": agents, "registry": "outrigger.dev"}},
	})
	if err != nil {
		w.Fatal(err)
	}
	objects, err := render.Objects(manifest)
	if err != nil {
		w.Fatal(err)
	}
	var account string
	for _, o := range objects {
		kinds := []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
		if !slices.Contains(kinds, o.GetKind()) {
			continue
		}
		agenttest.Poll(w, "the rights of "+model.RefOf(o).String(), func() bool {
			_, err := w.Client.Apply(w.Context(), o, cluster.Mode{})
			return err == nil
		})
		if subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects"); len(subjects) > 0 {
			account, _, _ = unstructured.NestedString(subjects[0].(map[string]any), "name") //nolint:forcetypeassert // the API server has accepted it
		}
	}
	text, err := os.ReadFile(w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.role = filepath.Join(w.TempDir(), "kubeconfig")
	as := strings.Replace(string(text), "token:", "as: system:serviceaccount:gpu-operator:"+account+", token:", 1)
	if err := os.WriteFile(w.role, []byte(as), 0o600); err != nil {
		w.Fatal(err)
	}
}
