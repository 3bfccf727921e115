package nodestate

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
		want    []Managed
	}{
		"none":                   {`null`, nil},
		"one that was reset":     {`[{}]`, nil},
		"without labels":         {`[{"manager":"a","fieldsV1":{"f:spec":{"f:labels":{"f:x":{}}}}}]`, nil},
		"annotations":            {`[{"manager":"a","operation":"Apply","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:y":{},"f:x":{}}}}}]`, []Managed{{Manager: "a", Applied: true, Annotations: []string{"x", "y"}}}},
		"the map itself is left": {`[{"manager":"a","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:.":{},"f:k/f:x":{}}}}}]`, []Managed{{Manager: "a", Labels: []string{".", "k/f:x"}}}},
		"only apply to the object itself counts": {
			`[
			{"manager":"z","operation":"Apply","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}},
			{"manager":"b","operation":"Update","fieldsV1":{"f:metadata":{"f:labels":{"f:y":{},"f:x":{}}}}},
			{"manager":"b","operation":"Apply","subresource":"status","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}}}}}]`,
			[]Managed{{Manager: "z", Applied: true, Labels: []string{"x"}}, {Manager: "b", Labels: []string{"x", "y"}}, {Manager: "b", Labels: []string{"x"}}},
		},
		"what a later version may put there": {`[{"manager":"a","fieldsV1":{"f:metadata":{"f:labels":{"f:x":7,"f:y":[{}],"f:z":null,"v:1":{}}}}}]`, []Managed{{Manager: "a", Labels: []string{"x", "y", "z"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []managedFields
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
// sorted keys.
func FuzzNode(f *testing.F) {
	f.Add([]byte(`{"metadata":{"labels":{"a":"1"},"managedFields":[{"manager":"a","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}}]},` +
		`"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"conditions":[{"type":"Ready","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`))
	f.Add([]byte(`{"kind":"Status","status":"Failure","message":"too old","code":410}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var n Node
		if json.Unmarshal(data, &n) != nil {
			return
		}
		for _, m := range n.Managed {
			for _, keys := range [][]string{m.Labels, m.Annotations} {
				if !slices.IsSorted(keys) {
					t.Errorf("%q owns %q", m.Manager, keys)
				}
			}
		}
	})
}
