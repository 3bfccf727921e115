package render_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/render"
)

// onlyInPools has agents that only a pool has, and agents that share objects between pools.
const onlyInPools = `
draPlugin: {enabled: false}
pools:
- {name: a, nodeSelector: {pool: a}, values: {draPlugin: {enabled: true}, driver: {enabled: true, repository: r.example.org, version: 580.95.05-ubuntu22.04}}}
- {name: b, nodeSelector: {pool: b}, values: {migManager: {gpuPods: evict}, driver: {enabled: true, repository: r.example.org, version: 580.95.05-rocky9}}}
`

// TestHelmAndTheOrchestratorInstallAllObjects compares the objects of a Helm release with the orchestrator, and the
// objects that the orchestrator applies, with all objects that the values ask for.
func TestHelmAndTheOrchestratorInstallAllObjects(t *testing.T) {
	files, err := filepath.Glob("../../../charts/testdata/outrigger/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find values: %v, %v", files, err)
	}
	cases := map[string]string{"only in pools": onlyInPools, "mixed": mixed}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases[filepath.Base(file)] = string(text)
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if err := yaml.Unmarshal([]byte(text), &values); err != nil {
				t.Fatal(err)
			}
			delete(values, "orchestrator")
			all := objectsOf(t, values, false)
			for ref := range objectsOf(t, values, true) {
				if charts.InRelease(ref.Kind) {
					t.Errorf("the orchestrator applies %s, which Helm installs", ref)
				}
			}
			byHelm := release(t, values)
			for ref, want := range all {
				got := byHelm[ref]
				switch {
				case !charts.InRelease(ref.Kind):
				case got == nil:
					t.Errorf("Helm does not install %s", ref)
				default:
					if diff := cmp.Diff(want, got); diff != "" && ref.Kind != "Namespace" {
						t.Errorf("Helm installs another %s (-want +got):\n%s", ref, diff)
					}
				}
			}
		})
	}
}

// objectsOf returns the objects of all stages.
func objectsOf(t *testing.T, values map[string]any, byHelm bool) map[model.Ref]map[string]any {
	t.Helper()
	stages, err := render.Stages(render.Config{ByHelm: byHelm, Kinds: pools.Kinds{"": {{ID: "ubuntu", Version: "22.04", Kernel: "6.8"}}}, Release: charts.Release{Name: "gpu", Namespace: "gpu-operator", Kubernetes: "v1.36.3", Values: values}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[model.Ref]map[string]any{}
	for _, st := range stages {
		for _, o := range st.Objects {
			if o.GetKind() != "Namespace" || o.GetName() != "gpu-operator" {
				found[model.RefOf(o)] = withoutManager(o)
			}
		}
	}
	return found
}

// release returns the objects that Helm installs.
func release(t *testing.T, values map[string]any) map[model.Ref]map[string]any {
	t.Helper()
	chart, err := charts.Load("outrigger")
	if err != nil {
		t.Fatal(err)
	}
	global, _ := values["global"].(map[string]any)
	if global == nil {
		global = map[string]any{}
		values["global"] = global
	}
	if global["registry"] == nil {
		global["registry"] = "outrigger.dev"
	}
	text, err := charts.Render(chart, charts.Release{Name: "gpu", Namespace: "gpu-operator", Kubernetes: "v1.36.3", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render.Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	found := map[model.Ref]map[string]any{}
	for _, o := range objects {
		found[model.RefOf(o)] = withoutManager(o)
	}
	return found
}

// withoutManager returns an object without the label that names the program which installs it.
func withoutManager(o *unstructured.Unstructured) map[string]any {
	labels := o.GetLabels()
	delete(labels, render.ManagedBy)
	o.SetLabels(labels)
	return o.Object
}
