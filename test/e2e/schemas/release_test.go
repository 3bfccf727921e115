package schemas_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// release is one way to install a chart.
type release struct {
	chart  string
	values string
	data   map[string]any
}

func (r release) name() string { return r.chart + " with " + filepath.Base(r.values) }

// enables reports whether the values enable a chart that is off by default.
func (r release) enables(key string) bool {
	values, _ := r.data[key].(map[string]any)
	return values["enabled"] == true
}

// releases returns each chart with each of its files of values.
func releases(t *testing.T, folder string) []release {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*/Chart.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatalf("find charts: %v, %v", found, err)
	}
	var all []release
	for _, file := range found {
		chart := filepath.Base(filepath.Dir(file))
		cases, err := filepath.Glob(filepath.Join(folder, "testdata", chart, "*.values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, release{chart: chart, values: "default values"})
		for _, path := range cases {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			values, err := loader.LoadValues(file)
			if err := errors.Join(err, file.Close()); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all = append(all, release{chart: chart, values: path, data: values})
		}
	}
	return all
}

// rendered holds what the versions of Kubernetes make of a release.
type rendered struct {
	release
	versions []string
	// text holds the objects by version.
	text map[string]string
}

// supported returns the versions of Kubernetes that a chart supports.
func supported(t *testing.T, folder, chart string, versions []string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct {
		KubeVersion string `json:"kubeVersion"`
	}
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		t.Fatalf("%s: %v", chart, err)
	}
	for len(versions) > 0 && metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(metadata.KubeVersion, versions[0]) {
		versions = versions[1:]
	}
	if len(versions) == 0 {
		t.Fatalf("%s: kubeVersion %s selects none of the versions", chart, metadata.KubeVersion)
	}
	return versions
}

// renderAll returns the objects of a release, with the versions of Kubernetes that they are
// for.
func (r release) renderAll(versions []string) (map[string][]string, error) {
	all := rendered{release: r, versions: versions, text: map[string]string{}}
	if err := all.between(0, len(versions)-1); err != nil {
		return nil, err
	}
	byText := map[string][]string{}
	for version, text := range all.text {
		byText[text] = append(byText[text], version)
	}
	return byText, nil
}

// between renders for the versions from first to last. If these two have the same objects,
// so have those between them: rendering costs much more than validating.
func (r rendered) between(first, last int) error {
	for _, version := range []string{r.versions[first], r.versions[last]} {
		if _, ok := r.text[version]; ok {
			continue
		}
		text, err := r.render(version)
		if err != nil {
			return fmt.Errorf("render %s for Kubernetes %s: %w", r.name(), version, err)
		}
		r.text[version] = text
	}
	if r.text[r.versions[first]] == r.text[r.versions[last]] {
		for _, version := range r.versions[first:last] {
			r.text[version] = r.text[r.versions[first]]
		}
		return nil
	}
	if last-first < 2 {
		return nil
	}
	middle := (first + last) / 2
	return errors.Join(r.between(first, middle), r.between(middle, last))
}

// render returns the objects of a release, and those of the chart's tests.
func (r release) render(version string) (string, error) {
	c, err := charts.Load(r.chart)
	if err != nil {
		return "", err
	}
	// Without this annotation, an object of a test is one like the others.
	for _, template := range c.Templates {
		template.Data = bytes.ReplaceAll(template.Data, []byte("helm.sh/hook: test"), []byte("outrigger.dev/hook: test"))
	}
	return charts.Render(c, charts.Release{Name: "outrigger", Namespace: "gpu-operator-resources", Kubernetes: version, Values: chartstest.WithRegistry(r.data)})
}
