package charts

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts/chartstest"
)

// policyOf returns the spec of the ClusterPolicy that Helm installs with the orchestrator. Beside it
// and the objects of the chart orchestrator, Helm must install only objects that give rights or that tenants
// share.
func policyOf(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	values["orchestrator"] = map[string]any{"enabled": true}
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Render(c, installed(values))
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	for _, document := range documents(out) {
		var object struct {
			Kind string
			Spec map[string]any
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		switch {
		case object.Kind == "ClusterPolicy":
			spec = object.Spec
		case !strings.HasPrefix(document, "# Source: outrigger/charts/operator/") && !InRelease(object.Kind):
			t.Errorf("Helm installs, beside the orchestrator:\n%s", document)
		}
	}
	if len(spec) == 0 {
		t.Fatal("Helm installs no ClusterPolicy")
	}
	return spec
}

// TestThePolicyGivesTheSameObjects renders values, and the policy that Helm makes of them.
func TestThePolicyGivesTheSameObjects(t *testing.T) {
	files, err := filepath.Glob("testdata/outrigger/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find values: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			values := valuesFrom(t, string(text))
			pools, hasPools := values["pools"]
			// The orchestrator renders each pool with values of its own.
			release := func(values map[string]any) Release {
				r := installed(without(values, "pools"))
				r.Nodes = kinds
				return r
			}
			want, err := Stages(release(values))
			if err != nil {
				t.Fatal(err)
			}
			spec := policyOf(t, valuesFrom(t, string(text)))
			if hasPools && !reflect.DeepEqual(spec["pools"], pools) {
				t.Errorf("the pools are %v, want %v", spec["pools"], pools)
			}
			got, err := Stages(release(spec))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, func(a, b Stage) bool { return a.Name == b.Name && a.Manifest == b.Manifest }) {
				t.Errorf("the policy gives other objects:\n%v\nwant\n%v", got, want)
			}
			if _, found := spec[orchestrator]; found {
				t.Error("the policy has orchestrator, which concerns only Helm")
			}
		})
	}
}

// TestThePolicyHasNoDefaults finds values in policies that the chart sets anyway.
func TestThePolicyHasNoDefaults(t *testing.T) {
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	_, defaults, err := composed(c)
	if err != nil {
		t.Fatal(err)
	}
	spec := policyOf(t, chartstest.WithRegistry(nil))
	if want := map[string]any{"global": map[string]any{"registry": "outrigger.dev"}}; !reflect.DeepEqual(spec, want) {
		t.Errorf("with the defaults, the spec is %v, want %v", spec, want)
	}
	files, err := filepath.Glob("testdata/outrigger/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find values: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := jsonForm(policyOf(t, chartstest.WithRegistry(valuesFrom(t, string(text)))))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range same("", spec, defaults) {
			t.Errorf("%s: the policy has the default of %s", file, path)
		}
	}
}

// same returns the paths of the values that are equal in two maps.
func same(at string, values, others map[string]any) []string {
	var paths []string
	for key, value := range values {
		other, found := others[key]
		below, isMap := value.(map[string]any)
		others, bothMaps := other.(map[string]any)
		switch {
		case isMap && bothMaps && len(below) > 0:
			paths = append(paths, same(at+key+".", below, others)...)
		case found && reflect.DeepEqual(value, other):
			paths = append(paths, at+key)
		}
	}
	return paths
}
