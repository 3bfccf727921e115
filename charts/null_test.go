package charts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// ownValues are the paths without which the tests cannot render: TestNullIsTheDefault sets the
// registry itself, and tags switches charts off in Helm.
var ownValues = []string{"global", "global.registry", "tags", "tags.optional"}

// TestNullIsTheDefault sets each value of each chart to null, as a file does whose author has commented
// out the lines below a key. Helm then removes the default of the value.
func TestNullIsTheDefault(t *testing.T) {
	for _, chart := range names(t) {
		if chart == "outrigger" { // TestNullIsTheDefaultInTheUmbrella
			continue
		}
		t.Run(chart, func(t *testing.T) {
			want, err := release{chart: chart}.render()
			if err != nil {
				t.Fatal(err)
			}
			paths := readSchema(t, chart).paths(nil)
			for depth := 1; ; depth++ {
				level := slices.DeleteFunc(slices.Clone(paths), func(p []string) bool { return len(p) != depth })
				if len(level) == 0 {
					return
				}
				if nullProblem(chart, want, nulls(level...)) == "" {
					continue
				}
				for _, path := range level {
					if problem := nullProblem(chart, want, nulls(path)); problem != "" {
						t.Errorf("%s: null: %s", strings.Join(path, "."), problem)
					}
				}
				t.Errorf("depth %d: null is not the default", depth)
			}
		})
	}
}

// nullProblem returns how the objects of a chart with these values differ from its defaults, or "".
func nullProblem(chart, want string, values map[string]any) string {
	got, err := release{chart: chart, values: values}.render()
	if err != nil {
		return err.Error()
	}
	if line, w, g := firstDifference(want, got); line > 0 {
		return fmt.Sprintf("line %d (-want +got)\n-%s\n+%s", line, w, g)
	}
	return ""
}

// TestNullIsTheDefaultInTheUmbrella sets all values at one depth to null, and installs the agents with Helm
// and with the orchestrator.
func TestNullIsTheDefaultInTheUmbrella(t *testing.T) {
	paths, own := readSchema(t, "outrigger").paths(nil), valuesOf(t, "outrigger/values.yaml")
	for _, chart := range names(t) {
		c, err := charts.Load(chart)
		if err != nil {
			t.Fatal(err)
		}
		if key := c.Metadata.Annotations[charts.KeyAnnotation]; key != "" {
			paths = append(paths, readSchema(t, chart).paths([]string{key})...)
		}
	}
	helm := set(t, "orchestrator.enabled=false")
	want, err := release{chart: "outrigger", values: helm, namespace: "gpu-operator"}.render()
	if err != nil {
		t.Fatal(err)
	}
	wantStages := stageTexts(t, nil)
	for depth := 1; ; depth++ {
		level := slices.DeleteFunc(slices.Clone(paths), func(p []string) bool {
			// Helm itself rejects null for the values of a chart that are not in values.yaml.
			_, listed := own[p[0]]
			return len(p) != depth || p[0] == "orchestrator" || p[0] == "pools" || depth == 1 && !listed
		})
		if len(level) == 0 {
			break
		}
		values := nulls(level...)
		values["orchestrator"] = helm["orchestrator"]
		got, err := release{chart: "outrigger", values: values, namespace: "gpu-operator"}.render()
		if err != nil {
			t.Errorf("depth %d: null: %v", depth, err)
		} else if line, w, g := firstDifference(want, got); line > 0 {
			t.Errorf("depth %d: null: line %d (-want +got)\n-%s\n+%s", depth, line, w, g)
		}
		if line, w, g := firstDifference(wantStages, stageTexts(t, nulls(level...))); line > 0 {
			t.Errorf("depth %d: null in a ClusterPolicy: line %d (-want +got)\n-%s\n+%s", depth, line, w, g)
		}
		withOrchestrator(t, level)
	}
}

// withOrchestrator compares the objects that Helm installs with the orchestrator, the ClusterPolicy
// excepted, which lacks the values that are null.
func withOrchestrator(t *testing.T, level [][]string) {
	t.Helper()
	var texts [2]string
	for i, values := range []map[string]any{nil, nulls(level...)} {
		out, err := release{chart: "outrigger", values: values, namespace: "gpu-operator"}.render()
		if err != nil {
			t.Errorf("null with the orchestrator: %v", err)
			return
		}
		texts[i], _, _ = strings.Cut(out, "kind: ClusterPolicy\n")
	}
	if line, w, g := firstDifference(texts[0], texts[1]); line > 0 {
		t.Errorf("null with the orchestrator: line %d (-want +got)\n-%s\n+%s", line, w, g)
	}
}

// stageTexts returns the objects that the orchestrator applies.
func stageTexts(t *testing.T, values map[string]any) string {
	t.Helper()
	stages, err := charts.Stages(charts.Release{Name: "outrigger", Namespace: "gpu-operator", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(values)})
	if err != nil {
		t.Errorf("ClusterPolicy: %v", err)
	}
	var out strings.Builder
	for _, stage := range stages {
		out.WriteString("# " + stage.Name + "\n" + stage.Manifest)
	}
	return out.String()
}

// paths returns the paths of all values below s, of groups as well.
func (s schema) paths(at []string) [][]string {
	var found [][]string
	for key, property := range s.Properties {
		path := append(slices.Clone(at), key)
		if slices.Contains(ownValues, strings.Join(path, ".")) || key == "global" && len(at) > 0 || key == "outrigger-common" {
			continue
		}
		found = append(found, path)
		found = append(found, property.paths(path)...)
	}
	slices.SortFunc(found, slices.Compare)
	return found
}

// nulls returns values in which these paths are null.
func nulls(paths ...[]string) map[string]any {
	values := map[string]any{}
	for _, path := range paths {
		at := values
		for _, key := range path[:len(path)-1] {
			below, ok := at[key].(map[string]any)
			if !ok {
				below = map[string]any{}
				at[key] = below
			}
			at = below
		}
		at[path[len(path)-1]] = nil
	}
	return values
}
