package app_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/agent/agenttest"
)

// withRole installs what Helm installs with the orchestrator, and gives the orchestrators that start from now on
// the rights of the release, and no others.
func (w *world) withRole(values map[string]any) {
	w.Helper()
	version, err := w.Client.Version(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	chart, err := charts.Load("outrigger")
	if err != nil {
		w.Fatal(err)
	}
	values = maps.Clone(values)
	values["global"] = map[string]any{"registry": "outrigger.dev"}
	manifest, err := charts.Render(chart, charts.Release{Name: "gpu-operator", Namespace: "gpu-operator", Kubernetes: version, Values: values})
	if err != nil {
		w.Fatal(err)
	}
	objects, err := render.Objects(manifest)
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range objects {
		if slices.Contains([]string{"Deployment", "ClusterPolicy"}, o.GetKind()) {
			continue
		}
		agenttest.Poll(w, "the object of the release "+model.RefOf(o).String(), func() bool {
			w.Client.Refresh()
			o.SetLabels(nil)
			_, err := w.Client.Apply(w.Context(), o, cluster.Mode{Adopt: true})
			return err == nil
		})
	}
	text, err := os.ReadFile(w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.role = filepath.Join(w.TempDir(), "kubeconfig")
	as := strings.Replace(string(text), "token:", "as: system:serviceaccount:gpu-operator:gpu-operator-orchestrator, token:", 1)
	if err := os.WriteFile(w.role, []byte(as), 0o600); err != nil {
		w.Fatal(err)
	}
}
