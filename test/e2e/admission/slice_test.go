package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func slice() fields {
	return fields{
		"metadata": fields{"name": "n1-gpu.nvidia.com-x7k2p"},
		"spec": fields{
			"driver": "gpu.nvidia.com", "nodeName": "n1",
			"pool":    fields{"name": "n1", "generation": 1, "resourceSliceCount": 1},
			"devices": []any{fields{"name": "gpu-0"}},
		},
	}
}

func TestTheDRAPluginWritesTheSlicesOfItsNodeOnly(t *testing.T) {
	const (
		otherNode   = "does not write ResourceSlices of other nodes"
		otherPool   = "the agent on node n1 does not write ResourceSlices of the pool n2"
		otherDriver = "the agent writes only ResourceSlices of the driver gpu.nvidia.com"
		stuck       = "the agent adds no finalizers"
		owners      = "the agent sends no metadata.managedFields"
	)
	at := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	none := func(fields) {}
	finalizer := at([]any{"example.org/keep"}, "finalizers", "metadata")
	p := load(t, "dra-plugin/defaults.golden", ofSlices)
	for name, tc := range map[string]struct {
		// old and new change the object that was and that is to be; nil is for none.
		old, new func(fields)
		want     string
	}{
		"it is made":                   {new: none},
		"it is changed":                {old: none, new: at([]any{}, "devices", "spec")},
		"it is removed":                {old: none},
		"for another node":             {new: at("n2", "nodeName", "spec"), want: otherNode},
		"for no node":                  {new: func(o fields) { delete(part(o, "spec"), "nodeName") }, want: otherNode},
		"for all nodes":                {new: func(o fields) { delete(part(o, "spec"), "nodeName"); part(o, "spec")["allNodes"] = true }, want: otherNode},
		"of another node's pool":       {new: at("n2", "name", "spec", "pool"), want: otherPool},
		"moved to another node's pool": {old: none, new: at("n2", "name", "spec", "pool"), want: otherPool},
		"of another driver":            {new: at("nic.example.org", "driver", "spec"), want: otherDriver},
		"another node's is removed": {
			old: func(o fields) { part(o, "spec")["nodeName"] = "n2" }, want: otherNode,
		},
		"with an annotation": {new: at(fields{"a": "b"}, "annotations", "metadata"), want: "without labels and annotations"},
		"with a label":       {new: at(fields{"a": "b"}, "labels", "metadata"), want: "without labels and annotations"},
		"as the API server keeps it": {
			new: func(o fields) {
				part(o, "metadata")["managedFields"] = []any{fields{"manager": "dra-plugin", "operation": "Update", "fieldsV1": fields{
					"f:metadata": fields{"f:generateName": fields{}, "f:ownerReferences": fields{".": fields{}, `k:{"uid":"0c3f5b0e-8a4e-4d0b-9c53-6a2d2f6f1a11"}`: fields{}}},
					"f:spec":     fields{"f:devices": fields{}, "f:driver": fields{}, "f:nodeName": fields{}, "f:pool": fields{"f:generation": fields{}, "f:name": fields{}, "f:resourceSliceCount": fields{}}},
				}}}
				part(o, "metadata")["ownerReferences"] = []any{fields{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "0c3f5b0e-8a4e-4d0b-9c53-6a2d2f6f1a11"}}
			},
		},
		"with long names of fields": {new: at(managed(strings.Repeat("f", 65)), "managedFields", "metadata"), want: owners},
		"with long names of fields of fields": {
			old: none, new: at([]any{fields{"fieldsV1": fields{"f:spec": fields{"f:pool": fields{strings.Repeat("f", 65): fields{}}}}}}, "managedFields", "metadata"), want: owners,
		},
		"with deep fields": {
			new: at([]any{fields{"fieldsV1": fields{"f:spec": fields{"f:pool": fields{"f:name": fields{"f:x": fields{}}}}}}}, "managedFields", "metadata"), want: owners,
		},
		"with many owners of fields": {new: at(slices.Repeat(managed("f:a"), 5), "managedFields", "metadata"), want: owners},
		"with many fields": {new: func(o fields) {
			entry := managed("f:spec")
			for i := range 17 {
				part(entry[0].(fields), "fieldsV1", "f:spec", "f:host")[fmt.Sprint("f:", i)] = fields{}
			}
			part(o, "metadata")["managedFields"] = entry
		}, want: owners},
		"with many owners":          {new: at(slices.Repeat([]any{fields{"kind": "Node"}}, 5), "ownerReferences", "metadata"), want: "at most 4 owners"},
		"with a long owner":         {new: at([]any{fields{"kind": strings.Repeat("N", 254)}}, "ownerReferences", "metadata"), want: "with short fields"},
		"it cannot go":              {new: finalizer, want: stuck},
		"it cannot go any more":     {old: none, new: finalizer, want: stuck},
		"it was about to go anyway": {old: finalizer, new: finalizer},
		"it goes although it waits": {old: finalizer},
	} {
		t.Run(name, func(t *testing.T) {
			r := request{account: "outrigger-dra-plugin", bound: "n1"}
			if tc.old != nil {
				r.old = with(t, slice(), tc.old)
			}
			if tc.new != nil {
				r.new = with(t, slice(), tc.new)
			}
			p.check(t, r, tc.want)
		})
	}
	unbound := request{account: "outrigger-dra-plugin", new: with(t, slice(), nil)}
	if denied := p.denials(t, unbound); len(denied) != 3 {
		t.Errorf("a token that is bound to no node is denied for %q", denied)
	}
}
