package charts_test

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"

	"outrigger.dev/charts"
)

var update = flag.Bool("update", false, "write the golden files")

// release is how a test installs a chart.
type release struct {
	chart  string
	values map[string]any
	// namespace is gpu-operator-resources if it is empty.
	namespace string
	// kubernetes is the version of the cluster, 1.37.0 if it is empty.
	kubernetes string
}

func (r release) render() (string, error) {
	c, err := charts.Load(r.chart)
	if err != nil {
		return "", err
	}
	return charts.Render(c, charts.Release{
		Name: "outrigger", Namespace: cmp.Or(r.namespace, "gpu-operator-resources"),
		Kubernetes: cmp.Or(r.kubernetes, "1.37.0"), Values: r.values,
	})
}

// set parses values in the form of Helm's --set.
func set(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := strvals.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// valuesOf reads a file of values; there are none if it does not exist.
func valuesOf(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	values, err := loader.LoadValues(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return values
}

// TestGoldens renders each chart with its defaults and with each file of values
// that it has in testdata, and compares the objects with a golden file.
func TestGoldens(t *testing.T) {
	for _, chart := range names(t) {
		cases, err := filepath.Glob(filepath.Join("testdata", chart, "*.values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, values := range append(cases, filepath.Join("testdata", chart, "defaults.values.yaml")) {
			name := strings.TrimSuffix(values, ".values.yaml")
			t.Run(chart+"/"+filepath.Base(name), func(t *testing.T) {
				namespace := ""
				if chart == "outrigger" || chart == "orchestrator" {
					namespace = "gpu-operator"
				}
				got, err := release{chart: chart, values: valuesOf(t, values), namespace: namespace}.render()
				if err != nil {
					t.Fatal(err)
				}
				compareGolden(t, name+".golden", got)
			})
		}
	}
}

// TestPoliciesComeFirst finds an object that exists before the policies that restrict
// its account, in what the charts render and in the static manifests.
func TestPoliciesComeFirst(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(statics, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policies := 0
	for _, file := range append(files, manifests...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		other := ""
		for line := range strings.Lines(string(text)) {
			kind, ok := strings.CutPrefix(strings.TrimSpace(line), "kind: ")
			switch {
			case !ok || strings.HasPrefix(line, " "):
			case !strings.HasPrefix(kind, "ValidatingAdmissionPolicy"):
				other = kind
			case other != "" && !slices.Contains([]string{"Namespace", "NetworkPolicy", "CustomResourceDefinition"}, other):
				t.Errorf("%s: a %s comes before a %s", file, other, kind)
			default:
				policies++
			}
		}
	}
	if policies == 0 {
		t.Error("no file has a policy")
	}
}

// TestEveryCaseBelongsToAChart finds what a renamed or removed chart has left.
func TestEveryCaseBelongsToAChart(t *testing.T) {
	cases, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range cases {
		if entry.IsDir() && !slices.Contains(names(t), entry.Name()) {
			t.Errorf("testdata/%s belongs to no chart", entry.Name())
		}
	}
}

// compareGolden compares text with a golden file, which -update writes.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./... -update", err)
	}
	if line, w, g := firstDifference(string(want), got); line > 0 {
		t.Errorf("%s:%d (-want +got), update it with: go test ./... -update\n-%s\n+%s", path, line, w, g)
	}
}

// firstDifference returns the first line, counted from 1, that differs, or 0.
func firstDifference(want, got string) (line int, w, g string) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		w, g = "(end)", "(end)"
		if i < len(a) {
			w = a[i]
		}
		if i < len(b) {
			g = b[i]
		}
		if w != g {
			return i + 1, w, g
		}
	}
	return 0, "", ""
}

// TestLint runs what "helm lint --strict" runs.
func TestLint(t *testing.T) {
	for _, name := range names(t) {
		for _, message := range lint.RunAll(name, map[string]any{}, "default").Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// TestADisabledChartInstallsNothing has the value by which the chart outrigger selects agents.
func TestADisabledChartInstallsNothing(t *testing.T) {
	for _, chart := range names(t) {
		if _, ok := readSchema(t, chart).Properties["enabled"]; !ok || chart == "orchestrator" {
			continue
		}
		out, err := release{chart: chart, values: set(t, "enabled=false")}.render()
		if err != nil || strings.Contains(out, "kind:") {
			t.Errorf("%s: %v:\n%s", chart, err, out)
		}
	}
}
