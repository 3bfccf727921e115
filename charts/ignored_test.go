package charts

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// withoutEffect begins the description of each value that a chart accepts for values files of NVIDIA's
// charts, but does not use: "Without effect: REASON; FIX.".
const withoutEffect = "Without effect: "

// ignoredValue is a value that a chart accepts, but does not use.
type ignoredValue struct {
	Path, Reason, Fix string
}

// ignoredValues returns the values without effect in a schema, by their descriptions, sorted by path.
func ignoredValues(schema map[string]any) ([]ignoredValue, error) {
	var found []ignoredValue
	properties := child[map[string]any](schema, "properties")
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[key].(map[string]any)
		description, _ := property["description"].(string)
		if text, ok := strings.CutPrefix(description, withoutEffect); ok {
			reason, fix, ok := strings.Cut(strings.TrimSuffix(text, "."), "; ")
			if !ok {
				return nil, fmt.Errorf("%s: the description names no fix: %q", key, description)
			}
			found = append(found, ignoredValue{key, reason, fix})
			continue
		}
		below, err := ignoredValues(property)
		if err != nil {
			return nil, fmt.Errorf("%s.%w", key, err)
		}
		for _, v := range below {
			v.Path = key + "." + v.Path
			found = append(found, v)
		}
	}
	return found, nil
}

// TestTemplatesHaveTheValuesWithoutEffect compares the template with these values of each chart with the descriptions in the
// schemas, which templates cannot read, and writes it with -update.
func TestTemplatesHaveTheValuesWithoutEffect(t *testing.T) {
	files, err := filepath.Glob("*/values.schema.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("find schemas: %v, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Dir(file)
		var out strings.Builder
		fmt.Fprintf(&out, "{{- /* %s, from values.schema.json. */ -}}\n{{- define \"%s.withoutEffect\" -}}\n", generated, name)
		for _, v := range ignoredOf(t, name) {
			fmt.Fprintf(&out, "- [%s, %q]\n", v.Path, v.Reason+"; "+v.Fix)
		}
		out.WriteString("{{- end -}}\n")
		compareFiles(t, filepath.Join(name, "templates", "_ignored.tpl"), out.String())
	}
}

// ignoredOf returns the values without effect of a chart and of its dependencies.
func ignoredOf(t *testing.T, name string) []ignoredValue {
	t.Helper()
	c, err := LoadFolder(name)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := composed(c)
	if err != nil {
		t.Fatal(err)
	}
	values, err := ignoredValues(schema)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return values
}

var ignoredTable = regexp.MustCompile(`(?s)(<!-- ` + generated + ` in charts\. -->\n).*?(\n\n)`)

// TestTheDocumentationHasTheValuesWithoutEffect compares the table of the documentation with the schemas, and writes it
// with -update.
func TestTheDocumentationHasTheValuesWithoutEffect(t *testing.T) {
	const page = "../docs/from-nvidia-gpu-operator.md"
	rows := map[string][]string{}
	for _, v := range ignoredOf(t, umbrella) {
		row := v.Reason + " | " + v.Fix + " |"
		rows[row] = append(rows[row], "`"+v.Path+"`")
	}
	var lines []string
	for row, keys := range rows {
		lines = append(lines, "| "+strings.Join(keys, ", ")+" | "+row)
	}
	slices.Sort(lines)
	table := "| Value | Why it has no effect | What to do |\n|---|---|---|\n" + strings.Join(lines, "\n")
	compareFiles(t, page, ignoredTable.ReplaceAllString(string(readFile(t, page)), "${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}"))
	if !strings.Contains(string(readFile(t, page)), table) {
		t.Errorf("%s lacks the comment before the table: <!-- %s in charts. -->", page, generated)
	}
}

// TestDescriptionsSayWithoutEffectInOneForm has the words that other descriptions would use: a value that they describe
// would be missing in the notes.
func TestDescriptionsSayWithoutEffectInOneForm(t *testing.T) {
	files, err := filepath.Glob("*/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`"description": "[^"]*(without effect|[Nn]o effect[.:]|are no effect|Not needed|Not supported\.)[^"]*"`)
	for _, file := range files {
		for _, found := range other.FindAllString(string(readFile(t, file)), -1) {
			t.Errorf(`%s: begin it with %q: %s`, file, withoutEffect, found)
		}
	}
}

// TestIgnored sets all values without effect of the chart outrigger. Ignored, which reads the notes, names each of them
// with reason and fix, unless it asks for nothing, or is a value of a disabled part.
func TestIgnored(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		named bool
	}{
		"text":           {"x", true},
		"a map":          {map[string]any{"a": map[string]any{"b": 1}}, true},
		"an empty text":  {"", false},
		"an empty list":  {map[string]any{"env": []any{}}, false},
		"null":           {nil, false},
		"false":          {map[string]any{"openshift": false}, false},
		"a disabled map": {map[string]any{"enabled": false, "image": "x"}, false},
	} {
		values, want := map[string]any{"driver": map[string]any{"rdma": map[string]any{"enabled": true}}, "nfd": map[string]any{"enabled": true}, "draDriver": map[string]any{"enabled": true}}, []string(nil)
		for _, v := range ignoredOf(t, umbrella) {
			setAt(values, v.Path, tc.value)
			if tc.named {
				want = append(want, v.Path+": "+v.Reason+"; "+v.Fix)
			}
		}
		want = append(want, "nfd.enabled: this copy of the chart has no Node Feature Discovery, and feature discovery finds the nodes with GPUs itself; "+
			`set it to false, or install outrigger-VERSION.tgz of a release or of "make charts"`)
		if got := ignoredBy(t, values); !slices.Equal(got, want) {
			t.Errorf("%s: the notes have:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	for text, want := range map[string][]string{
		"{}": nil,
		"{driver: {enabled: false, startupProbe: {periodSeconds: 1}}}": nil,
		"{driver: {enabled: true, version: x}}":                        nil,
		"{draDriver: {computeDomains: {enabled: true}}}":               nil,
		"{driver: {enabled: false, version: x}}":                       nil,
		"{driver: {version: x}}":                                       {"driver.enabled: the default is false here"},
		"{migManager: {config: {name: x}}}":                            {"migManager.config.default: the default is empty here"},
		"{migManager: {config: {name: x, default: all-disabled}}}":     nil,
		"{migManager: {enabled: false, config: {name: x}}}":            nil,
		"{pools: [{name: a, values: {psp: {enabled: true}, driver: {image: x}}}]}": {
			"pools[0].values.psp: Kubernetes has no", "pools[0].values.driver.enabled: the default",
		},
	} {
		got := ignoredBy(t, valuesFrom(t, text))
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: the notes have %q, want %q", text, got, want)
		}
	}
}

// ignoredBy returns the result of Ignored.
func ignoredBy(t *testing.T, values map[string]any) []string {
	t.Helper()
	got, err := Ignored(Release{Name: "a", Namespace: "b", Kubernetes: "1.37.0", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// setAt sets the value at a path.
func setAt(values map[string]any, path string, value any) {
	key, rest, deeper := strings.Cut(path, ".")
	if deeper {
		setAt(child(values, key), rest, value)
		return
	}
	values[key] = value
}

// asks reports whether a value asks for something, as the template outrigger.asks.
func asks(value any) bool {
	values, ok := value.(map[string]any)
	if !ok {
		return value != nil && value != false && value != "" && fmt.Sprint(value) != "[]"
	}
	if values["enabled"] == false {
		return false
	}
	for _, v := range values {
		if asks(v) {
			return true
		}
	}
	return false
}
