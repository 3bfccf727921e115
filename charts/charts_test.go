package charts_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/charts"
)

// names returns the folders that hold a chart.
func names(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*/Chart.yaml")
	if err != nil || len(found) == 0 {
		t.Fatalf("find charts: %v, %v", found, err)
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// TestChartsHaveNoLinks keeps each chart whole in a copy: Git for Windows, Flux and "cp -r" lose links.
func TestChartsHaveNoLinks(t *testing.T) {
	for _, folder := range append(names(t), "library") {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type()&fs.ModeSymlink != 0 {
				t.Errorf("%s is a symbolic link, which is lost in some copies of the chart: replace it with a file", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestMetadata has what Artifact Hub and "helm search" show.
func TestMetadata(t *testing.T) {
	for _, name := range names(t) {
		c, err := charts.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		m := c.Metadata
		if m.Home == "" || m.Icon == "" || len(m.Sources) == 0 || len(m.Keywords) < 3 || len(m.Maintainers) == 0 || m.Annotations["artifacthub.io/license"] != "Apache-2.0" {
			t.Errorf("%s/Chart.yaml lacks metadata: %+v", name, m)
		}
	}
}

// schema is the part of a JSON schema that says which values there are.
type schema struct {
	Description          string
	Type                 any
	Properties           map[string]schema
	AdditionalProperties any
	// Comment is not empty for the values of another chart, which has its own schema and README.
	Comment string `json:"$comment"`
}

// leaves returns the paths of all values below s, as "metrics.port".
func (s schema) leaves(prefix string) []string {
	var paths []string
	for name, property := range s.Properties {
		if property.Comment != "" {
			continue
		}
		if len(property.Properties) > 0 {
			paths = append(paths, property.leaves(prefix+name+".")...)
		} else {
			paths = append(paths, prefix+name)
		}
	}
	slices.Sort(paths)
	return paths
}

func TestEveryValueIsDescribedInSchemaAndReadme(t *testing.T) {
	for _, name := range names(t) {
		s := readSchema(t, name)
		readme, err := os.ReadFile(filepath.Join(name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range s.leaves("") {
			if !strings.Contains(string(readme), "`"+path+"`") {
				t.Errorf("%s/README.md does not describe %s", name, path)
			}
		}
		s.checkStrict(t, name)
	}
}

// checkStrict reports objects that let unknown values pass, and values without
// a description.
func (s schema) checkStrict(t *testing.T, path string) {
	t.Helper()
	if strict, ok := s.AdditionalProperties.(bool); !ok || strict {
		t.Errorf("%s: the schema lets unknown values pass", path)
	}
	for name, property := range s.Properties {
		if property.Description == "" {
			t.Errorf("%s.%s has no description", path, name)
		}
		if len(property.Properties) > 0 && property.Comment == "" {
			property.checkStrict(t, path+"."+name)
		}
	}
}

func TestChartsHaveTheVersionOfTheRelease(t *testing.T) {
	text, err := os.ReadFile("../versions.mk")
	if err != nil {
		t.Fatal(err)
	}
	var version string
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":="); ok && strings.TrimSpace(name) == "VERSION" {
			version = strings.TrimSpace(value)
		}
	}
	for _, name := range names(t) {
		chart, err := os.ReadFile(filepath.Join(name, "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"\nversion: " + version + "\n", "\nappVersion: " + version + "\n", "\n  outrigger.dev/needs: "} {
			if !strings.Contains(string(chart), want) {
				t.Errorf("%s/Chart.yaml lacks %q", name, strings.TrimSpace(want))
			}
		}
	}
	// Of charts within charts, and of what a chart depends on.
	all, err := filepath.Glob("*/charts/*/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		all = append(all, filepath.Join(name, "Chart.yaml"))
	}
	for _, file := range all {
		chart, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?im)^ *(?:app)?version: *(.*)$`).FindAllSubmatch(chart, -1) {
			if string(found[1]) != version {
				t.Errorf("%s has the version %s, versions.mk has %s: run make bump", file, found[1], version)
			}
		}
	}
}

// fickle finds what makes a template differ from one rendering to the next, or
// act beside the objects that it renders.
// The test of a chart, which "helm test" runs, acts only when somebody asks for it.
var fickle = regexp.MustCompile(`\{\{[^}]*\b(lookup|rand[A-Z]\w*|gen[A-Z]\w*|uuidv4|now)\b|helm\.sh/hook`)

func TestTemplatesDoTheSameEveryTime(t *testing.T) {
	if !fickle.MatchString(`x: {{ randAlphaNum 5 }}`) || !fickle.MatchString(`{{- if (lookup "v1" "Secret" "a" "b") }}`) {
		t.Fatal("the pattern finds nothing")
	}
	for _, folder := range append(names(t), "library") {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || ext != ".tpl" && ext != ".yaml" && ext != ".txt" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = bytes.ReplaceAll(text, []byte("helm.sh/hook: test\n"), nil)
			// The hooks that act: only a hook runs before Helm deletes the orchestrator's rights, and before Helm
			// applies the ClusterPolicy.
			if strings.HasSuffix(path, "orchestrator/templates/cleanup.yaml") {
				text = bytes.ReplaceAll(text, []byte("helm.sh/hook: pre-delete\n"), nil)
			}
			if strings.HasSuffix(path, "orchestrator/templates/_crd.tpl") {
				text = bytes.ReplaceAll(text, []byte("helm.sh/hook: {{ .hook }}\n"), nil)
				text = bytes.ReplaceAll(text, []byte("helm.sh/hook-weight: "), nil)
			}
			text = bytes.ReplaceAll(text, []byte("helm.sh/hook-delete-policy: "), nil)
			if found := fickle.Find(text); found != nil {
				t.Errorf("%s: %s", path, found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
