package stack

import (
	"path/filepath"
	"testing"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// TestSplit splits what every chart renders, and finds the DaemonSet by which
// Install waits.
func TestSplit(t *testing.T) {
	found, err := filepath.Glob("../../../charts/*/Chart.yaml")
	if err != nil || len(found) == 0 {
		t.Fatalf("find charts: %v, %v", found, err)
	}
	for _, file := range found {
		name := filepath.Base(filepath.Dir(file))
		chart, err := charts.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		rendered, err := charts.Render(chart, charts.Release{Name: name, Namespace: Namespace, Kubernetes: "v1.36.3", Values: chartstest.WithRegistry(nil)})
		if err != nil {
			t.Fatal(err)
		}
		manifests, err := split(rendered)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[ref]bool{}
		for _, m := range manifests {
			if m.APIVersion == "" || m.Kind == "" || m.Metadata.Name == "" || seen[m.ref] {
				t.Errorf("%s: %+v is no object, or is there twice:\n%s", name, m.ref, m.text)
			}
			seen[m.ref] = true
			if m.Kind == "DaemonSet" && m.Metadata.Namespace != Namespace {
				t.Errorf("%s: DaemonSet %s is in namespace %q, want %q", name, m.Metadata.Name, m.Metadata.Namespace, Namespace)
			}
		}
	}
}

func TestSplitNamesWhatItCannotRead(t *testing.T) {
	if _, err := split("---\nkind: [\n"); err == nil {
		t.Error("no error")
	}
}
