//go:build e2e

package tools_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// makesCharts renders each package that "make charts" writes in a clone as its folder, and finds it in
// the OCI layout.
func makesCharts(t *testing.T, root string) {
	if out, err := makeIn(t, root, "charts", "TZ=UTC0", "022"); err != nil {
		t.Fatalf("make charts: %v\n%s", err, out)
	}
	packages, err := filepath.Glob(filepath.Join(root, "out/charts/*.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, file := range packages {
		want = append(want, strings.TrimSuffix(filepath.Base(file), ".tgz"))
		name := filepath.Base(file)
		name = name[:strings.LastIndex(name, "-")]
		if diff := cmp.Diff(template(t, root, "charts/"+name), template(t, root, file)); diff != "" {
			t.Errorf("%s renders other objects than its folder (-folder +package):\n%s", name, diff)
		}
	}
	charts, err := filepath.Glob(filepath.Join(root, "charts/*/Chart.yaml"))
	if err != nil || len(charts) == 0 || len(packages) != len(charts) {
		t.Errorf("there are %d packages of %d charts: %v", len(packages), len(charts), err)
	}
	text, err := os.ReadFile(filepath.Join(root, "out/charts/oci/index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Manifests []struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range index.Manifests {
		got = append(got, m.Annotations["org.opencontainers.image.ref.name"])
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("charts in the OCI layout (-packages +layout):\n%s", diff)
	}
}

// template returns what "helm template" renders for a chart.
func template(t *testing.T, root, chart string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin/helm"), "template", "a", chart, "--set", "global.registry=registry.example.org")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", chart, err, out)
	}
	return string(out)
}
