package oci

import (
	"cmp"
	"encoding/json"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func (p patch) hooks(hooks *object) error {
	if p.remove != nil {
		if err := changeArray(hooks, "prestart", p.removePrestart); err != nil {
			return err
		}
	}
	for _, h := range p.add.Hooks {
		if err := changeArray(hooks, h.Phase, func(a *array) error { return addHook(a, h.Hook) }); err != nil {
			return err
		}
	}
	return nil
}

func (p patch) removePrestart(hooks *array) error {
	var err error
	*hooks = slices.DeleteFunc(*hooks, func(raw json.RawMessage) bool {
		var h specs.Hook
		err = cmp.Or(err, json.Unmarshal(raw, &h))
		return err == nil && p.remove(h)
	})
	return err
}

// addHook appends a hook unless it exists. An engine may already have applied the same CDI spec.
func addHook(hooks *array, h specs.Hook) error {
	for _, raw := range *hooks {
		var old specs.Hook
		// The Hook of the runtime-spec has slices and a pointer, and no method Equal.
		if json.Unmarshal(raw, &old) == nil && reflect.DeepEqual(old, h) {
			return nil
		}
	}
	return hooks.add(h)
}
