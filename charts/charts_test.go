package charts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// TestChartsHaveTheTemplatesInCommon keeps a chart from a copy of its own.
func TestChartsHaveTheTemplatesInCommon(t *testing.T) {
	for _, name := range names(t) {
		link := filepath.Join(name, "templates", "common")
		if to, err := os.Readlink(link); err != nil || to != "../../common" {
			t.Errorf("%s links to %q, want ../../common: %v", link, to, err)
		}
	}
}

// schema is the part of a JSON schema that says which values there are.
type schema struct {
	Description          string
	Properties           map[string]schema
	AdditionalProperties any
}

// leaves returns the paths of all values below s, as "metrics.port".
func (s schema) leaves(prefix string) []string {
	var paths []string
	for name, property := range s.Properties {
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
		if len(property.Properties) > 0 {
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
}

// fickle finds what makes a template differ from one rendering to the next, or
// act beside the objects that it renders.
var fickle = regexp.MustCompile(`\{\{[^}]*\b(lookup|rand[A-Z]\w*|gen[A-Z]\w*|uuidv4|now)\b|helm\.sh/hook`)

func TestTemplatesDoTheSameEveryTime(t *testing.T) {
	if !fickle.MatchString(`x: {{ randAlphaNum 5 }}`) || !fickle.MatchString(`{{- if (lookup "v1" "Secret" "a" "b") }}`) {
		t.Fatal("the pattern finds nothing")
	}
	for _, folder := range append(names(t), "common") {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || ext != ".tpl" && ext != ".yaml" && ext != ".txt" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
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
