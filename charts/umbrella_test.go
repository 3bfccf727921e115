package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

// TestTheUmbrellaHasEveryChart compares the parts of the chart outrigger that follow from
// the other charts with these, and writes them with -update.
func TestTheUmbrellaHasEveryChart(t *testing.T) {
	parts := members(t)
	compareFiles(t, "outrigger/Chart.yaml", withDependencies(t, parts))
	compareFiles(t, "outrigger/values.schema.json", withKeys(t, parts))
	compareTree(t, "outrigger/templates/agents", templates(parts))
}

// TestTemplatesHaveTheDefaults compares the template with the defaults of each chart with values.yaml, which
// templates cannot read, and writes it with -update.
func TestTemplatesHaveTheDefaults(t *testing.T) {
	files, err := filepath.Glob("*/values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find values: %v, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Dir(file)
		var values map[string]any
		if err := yaml.Unmarshal(readFile(t, file), &values); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		text, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		compareFiles(t, filepath.Join(name, "templates", "_defaults.tpl"),
			fmt.Sprintf("{{- /* %s, from values.yaml. */ -}}\n{{- define \"%s.defaults\" -}}\n%s{{- end -}}\n", generated, name, text))
	}
}

// TestChartsContainWhatTheyDependOn compares the copies of charts in the folder charts of each chart with
// their sources, and writes them with -update.
func TestChartsContainWhatTheyDependOn(t *testing.T) {
	files, err := filepath.Glob("*/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Dir(file)
		all, err := contents(os.DirFS("."), name)
		if err != nil {
			t.Fatal(err)
		}
		copies := map[string]string{}
		for file, text := range all {
			if inside, ok := strings.CutPrefix(file, "charts/"); ok {
				copies[inside] = string(text)
			}
		}
		if copies[library+"/Chart.yaml"] == "" {
			t.Errorf("%s/Chart.yaml lacks the dependency %s", name, library)
		}
		compareTree(t, filepath.Join(name, "charts"), copies)
	}
}

// TestLoadReturnsWhatTheFolderHolds compares the embedded charts with the folder.
func TestLoadReturnsWhatTheFolderHolds(t *testing.T) {
	folders, err := filepath.Glob("*/Chart.yaml")
	if err != nil || len(folders) == 0 {
		t.Fatalf("find charts: %v, %v", folders, err)
	}
	for _, file := range folders {
		name := filepath.Dir(file)
		want, err := loader.LoadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, want, got)
	}
}

// member is a chart that the umbrella installs.
type member struct {
	*chart.Metadata
	key string
}

// members returns the charts with the annotation outrigger.dev/values-key, each after those that it
// needs.
func members(t *testing.T) []member {
	t.Helper()
	files, err := filepath.Glob("*/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found, needs := map[string]member{}, map[string][]string{}
	for _, file := range files {
		var m chart.Metadata
		if err := yaml.Unmarshal(readFile(t, file), &m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if key := m.Annotations[KeyAnnotation]; key != "" {
			found[m.Name], needs[m.Name] = member{&m, key}, splitList(m.Annotations[NeedsAnnotation])
		}
	}
	order, err := sorted(needs)
	if err != nil {
		t.Fatal(err)
	}
	var members []member
	for _, name := range order {
		members = append(members, found[name])
	}
	return members
}

var dependenciesBlock = regexp.MustCompile(`(?m)^dependencies:.*\n(?:[ -].*\n)*`)

// withDependencies returns the umbrella's Chart.yaml with all charts as its dependencies.
func withDependencies(t *testing.T, parts []member) string {
	t.Helper()
	block := "dependencies:\n"
	for _, m := range parts {
		block += fmt.Sprintf("  - name: %s\n    version: %s\n", m.Name, m.Version)
		if m.key != m.Name {
			block += "    alias: " + m.key + "\n"
		}
		if m.Name == orchestrator { // templates leave out disabled agents
			block += "    condition: " + orchestrator + ".enabled\n"
		}
	}
	block += fmt.Sprintf("  - name: %s\n    version: %s\n", library, parts[0].Version)
	return dependenciesBlock.ReplaceAllLiteralString(string(readFile(t, "outrigger/Chart.yaml")), block)
}

const generated = "Written by: go test ./... -update"

// withKeys returns the umbrella's schema with the values of all charts, which their own schemas
// describe.
func withKeys(t *testing.T, parts []member) string {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal(readFile(t, "outrigger/values.schema.json"), &s); err != nil {
		t.Fatal(err)
	}
	properties := s["properties"].(map[string]any)
	maps.DeleteFunc(properties, func(_ string, p any) bool { return p.(map[string]any)["$comment"] == generated })
	for _, m := range parts {
		properties[m.key] = map[string]any{
			"$comment": generated, "description": "Values of the chart " + m.Name + ", checked by its schema.", "type": []string{"object", "null"},
		}
		if m.Name == orchestrator { // Helm does not check the values of a dependency that its condition disables
			var theirs map[string]any
			if err := json.Unmarshal(readFile(t, m.Name+"/values.schema.json"), &theirs); err != nil {
				t.Fatal(err)
			}
			maps.Copy(properties[m.key].(map[string]any), keysOf(theirs))
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// keysOf returns a schema that accepts the keys of a schema, with any values.
func keysOf(schema map[string]any) map[string]any {
	properties, ok := schema["properties"].(map[string]any)
	if !ok || schema["additionalProperties"] != false {
		return map[string]any{}
	}
	keys := map[string]any{}
	for key, property := range properties {
		keys[key] = keysOf(property.(map[string]any))
	}
	return map[string]any{"additionalProperties": false, "properties": keys}
}

// templates returns the template of each agent, and the list of the agents.
func templates(parts []member) map[string]string {
	files, list := map[string]string{}, ""
	for _, m := range parts {
		if m.Name != orchestrator {
			list += fmt.Sprintf("- {name: %s, key: %s}\n", m.Name, m.key)
			files[m.Name+".yaml"] = fmt.Sprintf("{{- include \"outrigger.agent\" (dict \"root\" . \"name\" %q \"key\" %q) -}}\n", m.Name, m.key)
		}
	}
	files["_agents.tpl"] = "{{- define \"outrigger.agentKeys\" -}}\n" + list + "{{- end -}}\n"
	return files
}

// compareTree compares the files of a folder with what it should have.
func compareTree(t *testing.T, folder string, want map[string]string) {
	t.Helper()
	if updating() {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if name, _ := filepath.Rel(folder, path); want[name] == "" {
			t.Errorf("%s belongs to no chart; remove it with: go test ./... -update", path)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		compareFiles(t, filepath.Join(folder, name), want[name])
	}
}

// compareFiles compares a file with what it should be.
func compareFiles(t *testing.T, path, want string) {
	t.Helper()
	CheckWriter(t)
	if updating() {
		write(t, path, want)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s is not what follows from the charts; write it with: go test ./... -update", path)
	}
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
