package charts

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// nvidiaFiles returns values files for NVIDIA's chart: the default values of its versions, and files of users.
func nvidiaFiles(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/nvidia/*.yaml")
	if err != nil || len(files) < 14 {
		t.Fatalf("find values: %v, %v", files, err)
	}
	found := map[string]map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = valuesFrom(t, string(text))
	}
	return found
}

// unchecked is a release whose values name no registry, as those of NVIDIA's chart.
func unchecked(values map[string]any) Release {
	return Release{Name: "gpu-operator", Namespace: "gpu-operator", Kubernetes: "1.36.0", Values: values}
}

// TestNVIDIAsValuesFilesNeedOneRun lists the problems of each file, follows the advice once, and installs the result.
func TestNVIDIAsValuesFilesNeedOneRun(t *testing.T) {
	for name, values := range nvidiaFiles(t) {
		t.Run(name, func(t *testing.T) {
			problems, notes, err := Check(unchecked(values))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"global.registry"}
			switch name {
			case "user-v25.10":
				want = []string{"driver.repository", "global.registry", "nodeStatusExporter.enabled"}
			case "user-v1.11": // it names a mirror
				want = []string{"driver.manager.repository", "global.registry", "toolkit.repository"}
			}
			if got := paths(problems); !slices.Equal(got, want) {
				t.Errorf("the problems are of %q, want %q:\n%s", got, want, problems)
			}
			for _, p := range slices.Concat([]Problem(problems), notes) {
				if p.Path == "" || p.Reason == "" || p.Instead == "" {
					t.Errorf("a problem or a note is incomplete: %+v", p)
				}
			}
			if left, _, err := Check(unchecked(problems.Apply(values))); err != nil || len(left) > 0 {
				t.Errorf("with the changes of the advice, there are still\n%s\n%v", left, err)
			}
		})
	}
}

// paths returns the paths of problems.
func paths(all []Problem) []string {
	var found []string
	for _, p := range all {
		found = append(found, p.Path)
	}
	return found
}

// helmError returns the problems that Helm prints when it installs the umbrella.
func helmError(t *testing.T, r Release) string {
	t.Helper()
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	values, err := renderValues(c, r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Render(c, values)
	if err == nil {
		return ""
	}
	place, text, found := strings.Cut(err.Error(), ": \n")
	if !found || !strings.Contains(place, "execution error at (outrigger/templates/") {
		t.Fatalf("Helm prints no list: %v", err)
	}
	return text
}

// everyPlace has one problem for each place that finds problems: schemas, templates of several agents, of the orchestrator, of the
// umbrella, and pools.
const everyPlace = `
global: {registry: 'https://r.example.org'}
typo: 1
dcgm: {enabled: true}
platform: {openshift: true}
toolkit: {updateStrategy: {rollingUpdate: {maxSurge: 1}}, metrics: {port: 70000}}
operator: {metrics: {localhost: true, service: {enabled: true}}, version: 'v 1'}
driver: {enabled: true, payload: /srv/driver.run, version: 580.95.05, licensingConfig: {configMapName: a, secretName: b}}
migManager: {config: {default: half}}
devicePlugin: {config: {map: {a: 'flags: ['}}}
pools:
- {name: a, nodeSelector: {a: b}, values: {nodeStatusExporter: {enabled: true}, devicePlugin: {typo: 1}, migManager: {config: {default: third}}}}
- {name: b, nodeSelector: {a: c}, values: {driver: {licensingConfig: {configMapName: c}}, dcgmExporter: {service: {enabled: true}, metrics: {port: 0}}}}
`

func TestCheckFindsTheProblemsOfAllPlacesAtOnce(t *testing.T) {
	values := valuesFrom(t, everyPlace)
	problems, _, err := Check(unchecked(values))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"dcgm.enabled", "devicePlugin.config.map.a", "driver.licensingConfig", "driver.payload", "driver.repository", "global.registry", "migManager.config.default",
		"operator.metrics.service.enabled", "operator.version", "platform.openshift", "pools[0].values.devicePlugin.typo", "pools[0].values.migManager.config.default", "pools[0].values.nodeStatusExporter.enabled",
		"pools[1].values.dcgmExporter.service.enabled", "toolkit.metrics.port", "toolkit.updateStrategy.rollingUpdate.maxSurge", "typo",
	}
	if got := paths(problems); !slices.Equal(got, want) {
		t.Errorf("the problems are of\n%q, want\n%q:\n%s", got, want, problems)
	}
	bySchema := func(p Problem) bool {
		return slices.Contains([]string{"typo", "toolkit.metrics.port", "pools[0].values.devicePlugin.typo"}, p.Path)
	}
	valid := slices.Clone(problems)
	valid = slices.DeleteFunc(valid, func(p Problem) bool { return !bySchema(p) })
	if got, want := helmError(t, unchecked(valid.Apply(values))), slices.DeleteFunc(slices.Clone(problems), bySchema).Error(); got != want {
		t.Errorf("Helm prints\n%s\nwant\n%s", got, want)
	}
	if _, err := Stages(unchecked(values)); !errors.As(err, &problems) || !slices.Contains(paths(problems), "driver.payload") || !slices.Contains(paths(problems), "typo") {
		t.Errorf("the orchestrator reports %v", err)
	}
}

// TestHelmPrintsTheProblemsThatTheProgramReports follows the advice for all values that the charts reject, and compares what
// Helm prints for a few of each chart: one template prints all problems.
func TestHelmPrintsTheProblemsThatTheProgramReports(t *testing.T) {
	names, err := Names()
	if err != nil {
		t.Fatal(err)
	}
	const few = 3
	followed := 0
	for _, name := range append(names, umbrella) {
		all, compared := rejected(t, name), 0
		for _, title := range slices.Sorted(maps.Keys(all)) {
			c, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			r := installed(all[title])
			_, err = execute(c, r)
			var found Problems
			if !errors.As(err, &found) {
				continue // Helm itself reads the schema, or the case needs another version of Kubernetes.
			}
			if compared++; compared <= few {
				given, err := renderValues(c, r)
				if err != nil {
					t.Fatal(err)
				}
				_, err = engine.Render(c, given)
				if err == nil || !strings.HasSuffix(err.Error(), ": \n"+found.Error()) {
					t.Errorf("%s/%s: Helm prints\n%v\nwant\n%s", name, title, err, found)
				}
			}
			if left := leftAfter(c, r, found); len(left) > 0 {
				t.Errorf("%s/%s: with the changes %+v, there are still\n%s", name, title, found, left)
			}
			followed++
		}
	}
	if followed < 80 {
		t.Errorf("the advice of %d cases was followed, want at least 80", followed)
	}
}

// leftAfter returns the problems with changes that are left, and new problems, after the changes.
func leftAfter(c *chart.Chart, r Release, before Problems) Problems {
	r.Values = before.Apply(r.Values)
	_, err := execute(c, r)
	var after Problems
	_ = errors.As(err, &after)
	return slices.DeleteFunc(after, func(p Problem) bool {
		return slices.ContainsFunc(before, func(b Problem) bool { return b.String() == p.String() && len(b.Changes) == 0 })
	})
}

// rejected returns the values of the rejections of a chart, by their titles.
func rejected(t *testing.T, name string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, file := range []string{"testdata/rejections.yaml", filepath.Join("testdata", name, "rejections.yaml")} {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		var cases map[string]struct{ Values map[string]any }
		if err := yaml.Unmarshal(text, &cases); err != nil {
			t.Fatal(err)
		}
		for title, c := range cases {
			all[title] = c.Values
		}
	}
	return all
}

// textOf returns values in YAML.
func textOf(t *testing.T, values map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestApply(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []Change
		want    string
	}{
		"a new value":                {[]Change{{"b.c", 1}}, "{a: [{x: 1}, {x: 2}], b: {c: 1}}"},
		"another value":              {[]Change{{"a[1].x", "z"}}, "{a: [{x: 1}, {x: z}]}"},
		"no value":                   {[]Change{{"a[0].x", nil}}, "{a: [{}, {x: 2}]}"},
		"no item":                    {[]Change{{"a[0]", nil}}, "{a: [{x: 2}]}"},
		"no value that was missing":  {[]Change{{"b.c", nil}, {"a[7].x", nil}, {"a.b", nil}}, "{a: [{x: 1}, {x: 2}]}"},
		"two values, one after that": {[]Change{{"a", nil}, {"b", true}}, "{b: true}"},
	} {
		t.Run(name, func(t *testing.T) {
			const before = "{a: [{x: 1}, {x: 2}]}"
			values := valuesFrom(t, before)
			got := Problems{{Changes: tc.changes}}.Apply(values)
			if got, want := textOf(t, got), textOf(t, valuesFrom(t, tc.want)); got != want {
				t.Errorf("the values are\n%s\nwant\n%s", got, want)
			}
			if got := textOf(t, values); got != textOf(t, valuesFrom(t, before)) {
				t.Errorf("the values of the caller are now\n%s", got)
			}
		})
	}
	if got := slices.Sorted(maps.Keys((Problems{{Changes: []Change{{"a.b", 1}}}}).Apply(nil))); !slices.Equal(got, []string{"a"}) {
		t.Errorf("without values, the keys are %q", got)
	}
}
