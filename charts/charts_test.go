package charts_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"

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

// TestChartsHaveTheTemplatesInCommon keeps a chart from a copy of its own.
func TestChartsHaveTheTemplatesInCommon(t *testing.T) {
	want, err := os.ReadFile("device-plugin/templates/links/followed/check.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		link := filepath.Join(name, "templates", "common")
		check := filepath.Join(name, "templates/links/followed/check.yaml")
		if text, err := os.ReadFile(check); err != nil || string(text) != string(want) {
			t.Errorf("%s differs from that of device-plugin: %v", check, err)
		}
		if to, err := os.Readlink(link); err != nil || to != "../../common" {
			t.Errorf("%s links to %q, want ../../common: %v", link, to, err)
		}
	}
}

// TestACopyWithoutLinksNamesTheFix renders what is left of each chart when a tool drops
// symbolic links.
func TestACopyWithoutLinksNamesTheFix(t *testing.T) {
	for _, name := range names(t) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, withoutLinks{os.DirFS(name)}); err != nil {
			t.Fatal(err)
		}
		c, err := loader.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		// Helm rejects a chart without a dependency earlier, and names another fix.
		if found := len(c.Dependencies()); found != len(c.Metadata.Dependencies) {
			t.Errorf("%s: %d charts are left in the folder charts, want %d", name, found, len(c.Metadata.Dependencies))
		}
		_, err = charts.Render(c, charts.Release{Name: "a", Namespace: "b", Kubernetes: "1.37.0", Values: map[string]any{}})
		for _, want := range []string{"templates/common is missing in the chart " + name, name + "-" + c.Metadata.Version + ".tgz", "cp -rL"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error is %v, want one that contains %q", name, err, want)
			}
		}
	}
}

// TestACopyWithLinksThatLeadNowhereNamesTheFix loads each chart as cp -r copies its folder. Helm's
// own error names the first link that it follows.
func TestACopyWithLinksThatLeadNowhereNamesTheFix(t *testing.T) {
	for _, name := range names(t) {
		dir := filepath.Join(t.TempDir(), name)
		if out, err := exec.CommandContext(t.Context(), "cp", "-r", name, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := loader.LoadDir(dir); err == nil || !strings.Contains(err.Error(), "copy-charts-with-cp-rL: lstat") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACopyOfWhatTheLinksLeadToIsWhole loads each chart as cp -rL copies its folder.
func TestACopyOfWhatTheLinksLeadToIsWhole(t *testing.T) {
	for _, name := range names(t) {
		dir := filepath.Join(t.TempDir(), name)
		if out, err := exec.CommandContext(t.Context(), "cp", "-rL", name, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := loader.LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		want, err := charts.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Raw) != len(want.Raw) {
			t.Errorf("%s: the copy has %d files, want %d", name, len(got.Raw), len(want.Raw))
		}
	}
}

// withoutLinks is a folder without its symbolic links.
type withoutLinks struct{ fs.FS }

func (f withoutLinks) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Type()&fs.ModeSymlink != 0 }), err
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
	for _, folder := range append(names(t), "common") {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || ext != ".tpl" && ext != ".yaml" && ext != ".txt" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = bytes.ReplaceAll(text, []byte("helm.sh/hook: test\n"), nil)
			// The one hook that acts: only a hook runs before Helm deletes the orchestrator's rights.
			if path == "orchestrator/templates/cleanup.yaml" {
				text = bytes.ReplaceAll(text, []byte("helm.sh/hook: pre-delete\n"), nil)
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
