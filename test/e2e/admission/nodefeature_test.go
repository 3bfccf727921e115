package admission_test

import (
	"strings"
	"testing"
)

func nodeFeature() fields {
	return fields{
		"metadata": fields{
			"name": "nvidia-features-for-n1", "namespace": "gpu-operator-resources",
			"labels": fields{"nfd.node.kubernetes.io/node-name": "n1"},
		},
		"spec": fields{
			"labels":   fields{"nvidia.com/gpu.count": "1"},
			"features": fields{"flags": fields{}, "attributes": fields{}, "instances": fields{}},
		},
	}
}

func TestANodeFeatureHasLabelsOfItsNodeOnly(t *testing.T) {
	const (
		ownNode  = "for its own node only"
		labels   = "the agent may not request these labels: "
		features = "the agent publishes labels, and no features"
		stuck    = "the agent adds no finalizers"
	)
	at := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	finalizer := at([]any{"foregroundDeletion"}, "finalizers", "metadata")
	p := render(t, "feature-discovery", "nodefeature", ofNodeFeatures)
	for name, tc := range map[string]struct {
		change
		// old is what changes the object that there was; it is made without.
		old func(fields)
	}{
		"it is made":                  {},
		"it is changed":               {old: at(fields{}, "labels", "spec")},
		"with owners":                 {change: change{of: at([]any{fields{"kind": "Pod"}}, "ownerReferences", "metadata")}},
		"without labels":              {change: change{of: func(o fields) { delete(part(o, "spec"), "labels") }}},
		"without features":            {change: change{of: func(o fields) { delete(part(o, "spec"), "features") }}},
		"of another name":             {change: change{at("nvidia-features-for-n2", "name", "metadata"), ownNode}},
		"for another node":            {change: change{at("n2", "nfd.node.kubernetes.io/node-name", "metadata", "labels"), ownNode}},
		"for no node":                 {change: change{func(o fields) { delete(part(o, "metadata"), "labels") }, ownNode}},
		"in another namespace":        {change: change{at("default", "namespace", "metadata"), "namespace gpu-operator-resources only"}},
		"a role":                      {change: change{at("", "node-role.kubernetes.io/x", "spec", "labels"), labels + "node-role.kubernetes.io/x"}},
		"a feature":                   {change: change{at(fields{"cpu": fields{}}, "flags", "spec", "features"), features}},
		"a feature of a kind to come": {change: change{at(fields{"x": fields{}}, "tomorrow", "spec", "features"), features}},
		"a part of the spec to come":  {change: change{at(fields{"x": "y"}, "annotations", "spec"), features}},
		"it cannot go":                {change: change{finalizer, stuck}},
		"an annotation":               {change: change{at(fields{"a": "b"}, "annotations", "metadata"), "without annotations"}},
		"a label that is too long":    {change: change{at(fields{"nvidia.com/gpu.count": strings.Repeat("1", 64)}, "labels", "spec"), "each as long as a label of a Node"}},
		"as the API server keeps it": {change: change{of: at([]any{fields{"fieldsV1": fields{
			"f:metadata": fields{"f:labels": fields{".": fields{}, "f:nfd.node.kubernetes.io/node-name": fields{}}},
			"f:spec":     fields{"f:features": fields{}, "f:labels": fields{"f:nvidia.com/gpu.count": fields{}}},
		}}}, "managedFields", "metadata")}},
		"with long names of fields":     {change: change{at(managed(strings.Repeat("f", 65)), "managedFields", "metadata"), "the agent sends no metadata.managedFields"}},
		"with a long owner":             {change: change{at([]any{fields{"kind": strings.Repeat("N", 254)}}, "ownerReferences", "metadata"), "with short fields"}},
		"it cannot go any more":         {change: change{finalizer, stuck}, old: at(fields{}, "labels", "spec")},
		"it was about to go anyway":     {change: change{of: finalizer}, old: finalizer},
		"all of its labels are of none": {change: change{of: at(fields{}, "labels", "spec")}},
	} {
		t.Run(name, func(t *testing.T) {
			r := request{account: "outrigger-feature-discovery", bound: "n1", new: with(t, nodeFeature(), tc.of)}
			if tc.old != nil {
				r.old = with(t, nodeFeature(), tc.old)
			}
			p.check(t, r, tc.want)
		})
	}
}
