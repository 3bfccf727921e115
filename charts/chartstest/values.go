// Package chartstest completes the values of charts for tests.
package chartstest

import (
	"maps"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// Composed returns the schema of the umbrella, which includes the schemas of its dependencies.
func Composed(c *chart.Chart) (map[string]any, error) {
	schema, _, err := composed(c)
	return schema, err
}

// WithRegistry returns values with the registry of images that are loaded on each node, unless the
// values have the key global.registry, or set global to null.
func WithRegistry(values map[string]any) map[string]any {
	given, found := values["global"]
	global, isMap := given.(map[string]any)
	if _, named := global["registry"]; named || found && !isMap {
		return values
	}
	values, global = maps.Clone(values), maps.Clone(global)
	if values == nil {
		values = map[string]any{}
	}
	if global == nil {
		global = map[string]any{}
	}
	global["registry"], values["global"] = "outrigger.dev", global
	return values
}

// WithoutDefinitions removes the CRDs from rendered objects. TestTheDefinitionHasTheValues compares the CRD.
func WithoutDefinitions(objects string) string {
	all := strings.SplitAfter(strings.TrimPrefix(objects, "---\n"), "\n---\n")
	rest := slices.DeleteFunc(all, func(document string) bool { return strings.Contains(document, "\nkind: CustomResourceDefinition\n") })
	return "---\n" + strings.Join(rest, "")
}
