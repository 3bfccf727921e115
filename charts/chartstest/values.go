// Package chartstest completes the values of charts for tests.
package chartstest

import "maps"

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
