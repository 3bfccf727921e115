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
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

var update = flag.Bool("update", false, "write the files of charts.Writers, and run no other test")

// TestMain runs the tests one by one with -update, so that each test reads the files that the tests before it
// have written. Other tests read the embedded charts, which only a new build updates.
func TestMain(m *testing.M) {
	flag.Parse()
	run := flag.Lookup("test.run").Value
	if !*update || run.String() != "" {
		os.Exit(m.Run())
	}
	code := 0
	for _, name := range charts.Writers() {
		if err := run.Set("^" + name + "$"); err != nil {
			panic(err) // The name of a test is a pattern.
		}
		code = max(code, m.Run())
	}
	os.Exit(code)
}

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
	c, err := charts.LoadFolder(r.chart)
	if err != nil {
		return "", err
	}
	return charts.Render(c, charts.Release{
		Name: "outrigger", Namespace: cmp.Or(r.namespace, "gpu-operator-resources"),
		Kubernetes: cmp.Or(r.kubernetes, "1.37.0"), Values: chartstest.WithRegistry(r.values),
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

// variant is a chart with its defaults, or with a file of values in testdata.
type variant struct {
	chart, name string
	values      map[string]any
	// objects are what the chart renders, without CRDs.
	objects string
}

// path is the path of its file of values and its golden file, without what they end with.
func (v variant) path() string { return filepath.Join("testdata", v.chart, v.name) }

// variants returns those of a chart, by name.
func variants(t *testing.T, chart string) map[string]variant {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", chart, "*.values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]variant{}
	for _, file := range append(files, "defaults.values.yaml") {
		v := variant{chart: chart, name: strings.TrimSuffix(filepath.Base(file), ".values.yaml")}
		v.values = valuesOf(t, v.path()+".values.yaml")
		v.objects = v.render(t)
		found[v.name] = v
	}
	return found
}

// renderings has the objects of the variants that were rendered, by path: many tests read them.
var renderings sync.Map

func (v variant) render(t *testing.T) string {
	t.Helper()
	if objects, found := renderings.Load(v.path()); found {
		return objects.(string)
	}
	namespace := ""
	if v.chart == "outrigger" || v.chart == "orchestrator" {
		namespace = "gpu-operator"
	}
	objects, err := release{chart: v.chart, values: v.values, namespace: namespace}.render()
	if err != nil {
		t.Fatalf("%s: %v", v.path(), err)
	}
	objects = charts.WithoutDefinitions(objects)
	renderings.Store(v.path(), objects)
	return objects
}

// TestGoldens compares what the variants of each chart render with their golden files.
func TestGoldens(t *testing.T) {
	for _, chart := range names(t) {
		all := variants(t, chart)
		for name, v := range all {
			t.Run(chart+"/"+name, func(t *testing.T) {
				policiesComeFirst(t, v.path(), v.objects)
				got := v.objects
				if base := v.base(t); base != "" {
					if all[base].objects == "" {
						t.Fatalf("%s.values.yaml names no variant of the chart: %s", v.path(), base)
					}
					got = difference(parsed(t, all[base].objects), parsed(t, got))
				}
				compareGolden(t, v.path()+".golden", got)
			})
		}
	}
}

// TestPoliciesComeFirst looks at the static manifests, as TestGoldens at what the charts render.
func TestPoliciesComeFirst(t *testing.T) {
	manifests, err := filepath.Glob(filepath.Join(statics, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policies := 0
	for _, file := range manifests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		policies += policiesComeFirst(t, file, string(text))
	}
	if policies == 0 {
		t.Error("no file has a policy")
	}
}

// policiesComeFirst finds an object that exists before the policies that restrict its account, and
// returns how many policies there are.
func policiesComeFirst(t *testing.T, name, objects string) (policies int) {
	t.Helper()
	other := ""
	for line := range strings.Lines(objects) {
		kind, ok := strings.CutPrefix(strings.TrimSpace(line), "kind: ")
		switch {
		case !ok || strings.HasPrefix(line, " "):
		case !strings.HasPrefix(kind, "ValidatingAdmissionPolicy"):
			other = kind
		case other != "" && !slices.Contains([]string{"Namespace", "NetworkPolicy", "CustomResourceDefinition"}, other):
			t.Errorf("%s: a %s comes before a %s", name, other, kind)
		default:
			policies++
		}
	}
	return policies
}

// TestEveryCaseBelongsToAChart finds what a renamed or removed chart has left. The folder nvidia has values files of NVIDIA's chart.
func TestEveryCaseBelongsToAChart(t *testing.T) {
	cases, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range cases {
		if entry.IsDir() && entry.Name() != "nvidia" && !slices.Contains(names(t), entry.Name()) {
			t.Errorf("testdata/%s belongs to no chart", entry.Name())
		}
	}
}

// compareGolden compares text with a golden file, which -update writes.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	charts.CheckWriter(t)
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
