package charts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rejection is a set of values that a chart rejects.
type rejection struct {
	Values     map[string]any
	Kubernetes string
	// Want is what the error must contain.
	Want []string
}

// rejections reads a file of rejections; there are none if it does not exist.
func rejections(t *testing.T, path string) map[string]rejection {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var found map[string]rejection
	if err := yaml.UnmarshalStrict(text, &found); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return found
}

// TestRejections renders each chart with the values in its rejections.yaml, and
// with those in the shared one that its schema knows.
func TestRejections(t *testing.T) {
	shared := rejections(t, "testdata/rejections.yaml")
	for _, chart := range names(t) {
		s := readSchema(t, chart)
		for name, r := range shared {
			if s.knows(r.Values) {
				t.Run(chart+"/"+name, func(t *testing.T) { r.check(t, chart) })
			}
		}
		for name, r := range rejections(t, filepath.Join("testdata", chart, "rejections.yaml")) {
			t.Run(chart+"/"+name, func(t *testing.T) { r.check(t, chart) })
		}
	}
}

// knows reports whether the schema has every key of values.
func (s schema) knows(values map[string]any) bool {
	for key, value := range values {
		property, ok := s.Properties[key]
		if !ok && s.AdditionalProperties == false {
			return false
		}
		if nested, isMap := value.(map[string]any); ok && isMap && !(strings.Contains(fmt.Sprint(property.Type), "object") && property.knows(nested)) {
			return false
		}
	}
	return true
}

func (r rejection) check(t *testing.T, chart string) {
	t.Helper()
	_, err := release{chart: chart, values: r.Values, kubernetes: r.Kubernetes}.render()
	if err == nil {
		t.Fatal("the chart renders")
	}
	if len(r.Want) == 0 {
		t.Error("the case has no want")
	}
	for _, want := range r.Want {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// readSchema returns the schema of a chart's values.
func readSchema(t *testing.T, chart string) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("%s/values.schema.json: %v", chart, err)
	}
	return s
}

// TestFeatureDiscoveryWithoutPolicies renders feature discovery for a Kubernetes
// that has no ValidatingAdmissionPolicies, with values that need none.
func TestFeatureDiscoveryWithoutPolicies(t *testing.T) {
	chainless := set(t, "publish=nfd-file,presence.enabled=false")
	chainless["readyChain"] = []any{}
	for _, values := range []map[string]any{set(t, "admissionPolicy.create=false"), chainless} {
		out, err := release{chart: "feature-discovery", values: values, kubernetes: "1.29.9"}.render()
		if err != nil || strings.Contains(out, "ValidatingAdmissionPolicy") {
			t.Errorf("%v: %v: %s", values, err, out)
		}
	}
}
