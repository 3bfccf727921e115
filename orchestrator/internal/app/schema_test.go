package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/agent/agenttest"
)

// TestTheAPIServerStoresPolicies creates ClusterPolicies with the values that the charts accept, and reads them again.
func TestTheAPIServerStoresPolicies(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t)
	definition := applyDefinition(c)
	files, err := filepath.Glob("../../../charts/testdata/outrigger/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find values: %q, %v", files, err)
	}
	policies := map[string]map[string]any{
		"unknown keys":          parse(t, "{typo: 1, devicePlugin: {typo: {a: [1]}, mps: {typo: x}}, pools: [{name: a, nodeSelector: {a: b}, values: {typo: {b: null}}}]}"),
		"null for each value":   nullsOf(specOf(t, definition)),
		"the empty policy":      {},
		"other types of values": parse(t, `{devicePlugin: {image: registry/a:1, resources: "", logVerbosity: "2"}, daemonsets: {rollingUpdate: {maxUnavailable: 10%}}, toolkit: {affinity: {nodeAffinity: {}}}}`),
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		policies[filepath.Base(file)] = parse(t, string(text))
	}
	for name, spec := range policies {
		t.Run(name, func(t *testing.T) { storePolicy(c.In(t), spec) })
	}
	for name, spec := range map[string]string{
		"a text for a boolean":       `{devicePlugin: {enabled: "yes"}}`,
		"a number for a text":        `{global: {registry: 5}}`,
		"an unknown word":            `{mig: {strategy: both}}`,
		"a pool without a name":      `{pools: [{nodeSelector: {a: b}}]}`,
		"two pools of the same name": `{pools: [{name: a, nodeSelector: {a: b}}, {name: a, nodeSelector: {a: c}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Client.Create(t.Context(), policyWith(parse(t, spec))); err == nil {
				t.Error("the API server accepts it")
			}
		})
	}
}

// applyDefinition applies the CRD of ClusterPolicy, and waits until the API server has accepted its schema.
func applyDefinition(c clustertest.Cluster) *unstructured.Unstructured {
	c.Helper()
	text, err := charts.CRDs()
	if err != nil {
		c.Fatal(err)
	}
	all, err := render.Objects(string(text))
	if err != nil || len(all) != 1 {
		c.Fatalf("%d definitions, %v", len(all), err)
	}
	if _, err := c.Client.Apply(c.Context(), all[0], cluster.Mode{}); err != nil {
		c.Fatal(err)
	}
	agenttest.Poll(c, "the kind ClusterPolicy", func() bool {
		c.Client.Refresh()
		_, _, err := c.Client.Mapping(c.Context(), cluster.PolicyRef(""))
		return err == nil
	})
	definition := c.Get(model.RefOf(all[0]))
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, _ := condition.(map[string]any); fields["type"] == "NonStructuralSchema" && fields["status"] == "True" {
			c.Fatalf("the schema of the CRD is not structural: %v", fields["message"])
		}
	}
	return definition
}

func policyWith(spec map[string]any) *unstructured.Unstructured {
	o := cluster.PolicyRef("stored").Object()
	o.Object["spec"] = spec
	return o
}

// storePolicy creates a policy, compares the stored spec, and deletes the policy.
func storePolicy(c clustertest.Cluster, spec map[string]any) {
	c.Helper()
	if err := c.Client.Create(c.Context(), policyWith(spec)); err != nil {
		c.Fatal(err)
	}
	defer c.Delete(cluster.PolicyRef("stored"))
	stored := c.Get(cluster.PolicyRef("stored")).Object["spec"]
	got, err := yaml.Marshal(stored)
	if err != nil {
		c.Fatal(err)
	}
	want, err := yaml.Marshal(spec)
	if err != nil {
		c.Fatal(err)
	}
	if string(got) != string(want) {
		c.Errorf("the API server stores\n%s\nof\n%s", got, want)
	}
}

// specOf returns the schema of the spec in a CRD.
func specOf(t *testing.T, definition *unstructured.Unstructured) map[string]any {
	t.Helper()
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	spec, found, err := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec")
	if err != nil || !found {
		t.Fatalf("the CRD has no schema of the spec: %v", err)
	}
	return spec
}

// nullsOf returns values in which each value that has no values below is null.
func nullsOf(schema map[string]any) map[string]any {
	values := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		below, _ := property.(map[string]any)
		values[name] = nil
		if _, found := below["properties"]; found {
			values[name] = nullsOf(below)
		}
	}
	return values
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(strings.TrimSpace(text)), &values); err != nil {
		t.Fatal(err)
	}
	if values == nil {
		values = map[string]any{}
	}
	return values
}
