package schemas_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/test/e2e/schemas"
	"outrigger.dev/test/e2e/stack"
)

// exampleValues is the file in docs/examples that has values of charts.
const exampleValues = "values.yaml"

// TestExamples validates the manifests in docs/examples, and the objects of the charts with their values.
func TestExamples(t *testing.T) {
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	versions, err := schemas.Versions()
	if err != nil {
		t.Fatal(err)
	}
	checks, charts := newChecks(t, root, versions), filepath.Join(root, "charts")
	files, err := filepath.Glob(filepath.Join(root, "docs/examples/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("find examples: %v, %v", files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch name := filepath.Base(path); name {
		case exampleValues:
			for _, chart := range []string{stack.Umbrella, "device-plugin"} {
				checks.validateChart(t, chart, string(text), supported(t, charts, chart, versions))
			}
		case "dra.yaml":
			checks.validate(t, name, string(text), supported(t, charts, "dra-plugin", versions))
			imagesArePinned(t, name, string(text))
		default:
			checks.validate(t, name, string(text), versions)
			imagesArePinned(t, name, string(text))
		}
	}
}

// validateChart reports each object of a chart with the values of the examples that is not valid in one of the
// versions.
func (c checks) validateChart(t *testing.T, chart, text string, versions []string) {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	r := release{chart: chart, values: exampleValues, data: values}
	rendered, err := r.renderAll(versions)
	if err != nil {
		t.Fatal(err)
	}
	for objects, versions := range rendered {
		c.validate(t, r.name(), objects, versions)
	}
}

// imagesArePinned reports an image whose tag has neither a version nor a date.
func imagesArePinned(t *testing.T, name, text string) {
	t.Helper()
	images := regexp.MustCompile(`(?m)^ *image: (\S+)$`).FindAllStringSubmatch(text, -1)
	if len(images) == 0 {
		t.Errorf("%s has no image", name)
	}
	pinned := regexp.MustCompile(`:\S*\d+(\.\d+\.\d+|-\d\d-\d\d)`)
	for _, image := range images {
		if !pinned.MatchString(image[1]) {
			t.Errorf("%s: the tag of %s has neither a version nor a date", name, image[1])
		}
	}
}
