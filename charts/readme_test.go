package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
)

// TestTheReadmeHasTheDefaults compares the table of each README with values.yaml.
func TestTheReadmeHasTheDefaults(t *testing.T) {
	for _, name := range names(t) {
		readme, err := os.ReadFile(filepath.Join(name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		values, s := valuesOf(t, filepath.Join(name, "values.yaml")), readSchema(t, name)
		rows := valueRows(string(readme))
		if len(rows) == 0 {
			t.Errorf("%s/README.md has no table that begins with | Value | Default |", name)
		}
		for _, row := range rows {
			for i, path := range row.paths {
				if !s.has(path) {
					t.Errorf("%s/README.md has %s, which is no value of the chart", name, path)
				}
				got, set := lookUp(values, path)
				if says := row.says(i); !documents(says, got, set) {
					t.Errorf("%s/README.md: the default of %s is %s, in values.yaml it is %v", name, path, says, got)
				}
			}
		}
	}
}

// TestTheReadmeSaysHowToGetImageAndPackage has what differs from one build to the next.
func TestTheReadmeSaysHowToGetImageAndPackage(t *testing.T) {
	for _, name := range names(t) {
		readme, err := os.ReadFile(filepath.Join(name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := charts.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"`make charts` writes `out/charts/" + name + "-" + c.Metadata.Version + ".tgz`", "such as `" + c.Metadata.AppVersion + "-"} {
			if !strings.Contains(string(readme), want) {
				t.Errorf("%s/README.md lacks %q", name, want)
			}
		}
	}
}

// valueRow is a row of a table of values: their paths, and what it says of their defaults.
type valueRow struct {
	paths    []string
	defaults string
}

var (
	code  = regexp.MustCompile("`([^`]+)`")
	exact = regexp.MustCompile("^`([^`]*)`")
)

// valueRows returns the rows of all tables whose first columns are Value and Default.
func valueRows(text string) []valueRow {
	var rows []valueRow
	within := false
	for line := range strings.Lines(text) {
		within = strings.HasPrefix(line, "| Value | Default |") || within && strings.HasPrefix(line, "|")
		cells := strings.Split(line, " | ")
		if !within || len(cells) < 3 {
			continue
		}
		var row valueRow
		for _, m := range code.FindAllStringSubmatch(cells[0], -1) {
			row.paths = append(row.paths, m[1])
		}
		row.defaults = cells[1]
		rows = append(rows, row)
	}
	return slices.DeleteFunc(rows, func(r valueRow) bool { return len(r.paths) == 0 })
}

// says returns what the row says of the default of its i-th value.
func (r valueRow) says(i int) string {
	if each := strings.Split(r.defaults, ", "); len(r.paths) > 1 && len(each) == len(r.paths) {
		return each[i]
	}
	return r.defaults
}

// documents says whether a text describes a default.
func documents(says string, got any, set bool) bool {
	if m := exact.FindStringSubmatch(says); m != nil && !strings.Contains(says, "`, ") {
		var want any
		if err := yaml.Unmarshal([]byte(m[1]), &want); err != nil {
			want = m[1]
		}
		// What a schema allows may be left out of values.yaml, if it is nothing.
		nothing := want == nil || fmt.Sprint(want) == "[]" || fmt.Sprint(want) == "map[]"
		return set && reflect.DeepEqual(got, want) || !set && nothing
	}
	switch value := got.(type) {
	case nil:
		return says == "–"
	case []any:
		// Taints, by their keys.
		var keys []string
		for _, one := range value {
			if m, ok := one.(map[string]any); ok {
				keys = append(keys, fmt.Sprint(m["key"]))
			}
		}
		return strings.ReplaceAll(says, "control plane", "`node-role.kubernetes.io/control-plane`") == "`"+strings.Join(keys, "`, `")+"`"
	case map[string]any:
		return says == inWords(value) || value["nodeAffinity"] != nil || value["rollingUpdate"] != nil || value["worker"] != nil
	}
	return false
}

// inWords describes the resources or the security context of a container.
func inWords(value map[string]any) string {
	if value["privileged"] == true {
		if value["readOnlyRootFilesystem"] == true {
			return "privileged, read-only root"
		}
		return "privileged"
	}
	cpu, _ := lookUp(value, "requests.cpu")
	memory, _ := lookUp(value, "requests.memory")
	text := fmt.Sprintf("requests %v, %v", cpu, memory)
	if limit, ok := lookUp(value, "limits.memory"); ok {
		text += fmt.Sprintf("; limit %v", limit)
	}
	return text
}

func lookUp(values map[string]any, path string) (value any, ok bool) {
	head, rest, deeper := strings.Cut(path, ".")
	value, ok = values[head]
	if !deeper {
		return value, ok
	}
	below, _ := value.(map[string]any)
	return lookUp(below, rest)
}

// has says whether s has a value at path. The values of another chart are in the schema of that.
func (s schema) has(path string) bool {
	head, rest, deeper := strings.Cut(path, ".")
	property, ok := s.Properties[head]
	return ok && (!deeper || property.Comment != "" || property.has(rest))
}

// TestImagesOfNVIDIAsKeys sets only two of the three keys that an image has in NVIDIA's chart.
func TestImagesOfNVIDIAsKeys(t *testing.T) {
	for _, name := range names(t) {
		if p := readSchema(t, name).Properties; p["repository"].Description == "" || p["version"].Description == "" {
			continue
		}
		out, err := release{chart: name, values: map[string]any{"repository": "registry.example.org/gpu", "version": "26.1.0-test"}}.render()
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`image: registry\.example\.org/gpu/[a-z-]+:26\.1\.0-test\n`).MatchString(out) {
			t.Errorf("%s: repository and version have no effect without image", name)
		}
	}
}
