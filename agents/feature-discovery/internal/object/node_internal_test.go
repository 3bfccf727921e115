package object

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOwners reads managed fields as API servers write them.
func TestOwners(t *testing.T) {
	for name, tc := range map[string]struct {
		managed string
		want    map[string][]string
	}{
		"none":                   {`null`, map[string][]string{}},
		"one that was reset":     {`[{}]`, map[string][]string{}},
		"without labels":         {`[{"manager":"a","fieldsV1":{"f:spec":{"f:labels":{"f:x":{}}},"f:metadata":{"f:annotations":{"f:x":{}}}}}]`, map[string][]string{}},
		"the map itself is left": {`[{"manager":"a","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:.":{},"f:k/f:x":{}}}}}]`, map[string][]string{".": {"a"}, "k/f:x": {"a"}}},
		"each manager once, in order": {
			`[
			{"manager":"z","operation":"Apply","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}},
			{"manager":"b","operation":"Update","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{},"f:y":{}}}}},
			{"manager":"b","operation":"Apply","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}},
			{"manager":"b","operation":"Update","subresource":"status","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}}]`,
			map[string][]string{"x": {"b", "z"}, "y": {"b"}},
		},
		"what a later version may put there": {`[{"manager":"a","fieldsV1":{"f:metadata":{"f:labels":{"f:x":7,"f:y":[{}],"f:z":null,"v:1":{}}}}}]`, map[string][]string{"x": {"a"}, "y": {"a"}, "z": {"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []managed
			if err := json.Unmarshal([]byte(tc.managed), &all); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, owners(all)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzNode feeds what an API server might send: whatever can be decoded has
// owners that are sorted, each once.
func FuzzNode(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{"a":"1"},"managedFields":[{"manager":"a","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}}]},` +
		`"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`))
	f.Add([]byte(`{"kind":"Status","status":"Failure","message":"too old","code":410}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n Node
		if json.Unmarshal(data, &n) != nil {
			return
		}
		for key, managers := range n.Owners {
			if len(managers) == 0 || !slices.IsSorted(managers) || len(slices.Compact(slices.Clone(managers))) != len(managers) {
				t.Errorf("owners of %q are %q", key, managers)
			}
		}
	})
}
