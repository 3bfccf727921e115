// Package values completes the values of charts for tests.
package values

import "maps"

// WithRegistry returns values of a chart with the registry of images that are loaded on the nodes,
// unless the values name a registry.
func WithRegistry(values map[string]any) map[string]any {
	global, _ := values["global"].(map[string]any)
	if _, found := global["registry"]; found {
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
