package charts

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// raw returns the files of a chart by their path, those of its dependencies
// among them.
func raw(c *chart.Chart) map[string]string {
	files := map[string]string{}
	for _, f := range c.Raw {
		files[f.Name] = string(f.Data)
	}
	return files
}

// compare reports where two charts differ.
func compare(t *testing.T, want, got *chart.Chart) {
	t.Helper()
	w, g := raw(want), raw(got)
	delete(w, "README.md")
	for name := range w {
		if text, ok := g[name]; !ok {
			t.Errorf("%s: %s is missing: does charts.go embed it?", want.Name(), name)
		} else if text != w[name] {
			t.Errorf("%s: %s differs from the file", want.Name(), name)
		}
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			t.Errorf("%s: %s is not in the folder", want.Name(), name)
		}
	}
	if w, g := dependencies(want), dependencies(got); !slices.Equal(w, g) {
		t.Errorf("%s: dependencies are %v, want %v", want.Name(), g, w)
	}
}

func dependencies(c *chart.Chart) []string {
	var names []string
	for _, d := range c.Dependencies() {
		names = append(names, d.Name())
	}
	slices.Sort(names)
	return names
}

// TestUmbrella loads a chart with dependencies, custom resource definitions and hidden files, from
// their sources and from a folder with copies.
func TestUmbrella(t *testing.T) {
	sources := fstest.MapFS{}
	for name, text := range map[string]string{
		"library/outrigger-common/Chart.yaml":            "{apiVersion: v2, name: outrigger-common, type: library, version: 1.0.0}",
		"library/outrigger-common/templates/_names.tpl":  "{{- define \"outrigger.fullname\" }}x{{ end -}}",
		"agent/Chart.yaml":                               "{apiVersion: v2, name: agent, version: 1.0.0, dependencies: [{name: outrigger-common, version: 1.0.0}]}",
		"agent/README.md":                                "for people",
		"agent/values.yaml":                              "port: 1",
		"agent/templates/pod.yaml":                       "a: {{ include \"outrigger.fullname\" . }}",
		"agent/crds/agent.yaml":                          "kind: CustomResourceDefinition",
		"agent/charts/outrigger-common/Chart.yaml":       "a copy",
		"umbrella/Chart.yaml":                            "{apiVersion: v2, name: umbrella, version: 1.0.0, dependencies: [{name: agent, alias: one, version: 1.0.0}, {name: agent, alias: two, version: 1.0.0}, {name: outrigger-common, version: 1.0.0}]}",
		"umbrella/crds/policy.yaml":                      "kind: CustomResourceDefinition",
		"umbrella/templates/NOTES.txt":                   "installed",
		"umbrella/templates/.swap.yaml":                  "of an editor",
		"umbrella/charts/former/templates/services.yaml": "a copy",
	} {
		sources[name] = &fstest.MapFile{Data: []byte(text)}
	}
	got, err := load(sources, "umbrella")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Chart.yaml",
		"charts/agent/Chart.yaml", "charts/agent/crds/agent.yaml", "charts/agent/templates/pod.yaml", "charts/agent/values.yaml",
		"charts/outrigger-common/Chart.yaml", "charts/outrigger-common/templates/_names.tpl",
		"crds/policy.yaml", "templates/NOTES.txt",
	}
	if found := slices.Sorted(maps.Keys(raw(got))); !slices.Equal(found, want) {
		t.Errorf("the chart has the files\n%v, want\n%v", found, want)
	}
	dir := t.TempDir()
	for name, text := range raw(got) {
		write(t, filepath.Join(dir, name), text)
	}
	fromFolder, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, fromFolder, got)
	if crds := got.CRDObjects(); len(crds) != 2 {
		t.Errorf("%d custom resource definitions, want 2", len(crds))
	}
}

func TestLoadNamesWhatIsMissing(t *testing.T) {
	files := fstest.MapFS{
		"library/outrigger-common/templates/_names.tpl": {},
		"umbrella/Chart.yaml":                           {Data: []byte("{apiVersion: v2, name: umbrella, version: 1.0.0, dependencies: [{name: agent, version: 1.0.0}]}")},
	}
	for name, want := range map[string]string{"agent": "agent", "library": "Chart.yaml", "umbrella": "agent", "..": "..", "": ""} {
		if _, err := load(files, name); err == nil || !strings.Contains(err.Error(), "load chart "+name) || !strings.Contains(err.Error(), want) {
			t.Errorf("load %q: error is %v, want one that names %q", name, err, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
