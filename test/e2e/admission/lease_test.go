package admission_test

import (
	"strings"
	"testing"
)

const failures = "outrigger.dev/driver-upgrade-failures"

func slot(holder string) fields {
	return fields{
		"metadata": fields{"name": "driver-upgrade-0", "namespace": "gpu-operator-resources", "annotations": fields{failures: `{"n7":"580"}`}},
		"spec":     fields{"holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z"},
	}
}

func TestTheDriverLoaderTakesSlotsForItsNode(t *testing.T) {
	const (
		own      = "the agent on node n1 takes and gives back slots for its own node only"
		slots    = "the agent writes only the Leases driver-upgrade-0, driver-upgrade-1, …"
		annotate = "the agent annotates a slot with the failures of upgrades only"
	)
	at := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	annotation := func(key, value string) func(fields) { return at(value, key, "metadata", "annotations") }
	p := load(t, "driver-loader/defaults.golden", "leases.outrigger-driver-loader.gpu-operator-resources")
	for name, tc := range map[string]struct {
		// old is what was, nil for nothing.
		old  fields
		new  string
		of   func(fields)
		want string
	}{
		"a new one":                          {new: "n1"},
		"a new one for failures":             {new: ""},
		"one that is free":                   {old: slot(""), new: "n1"},
		"one whose node is gone":             {old: slot("n2"), new: "n1"},
		"it is renewed":                      {old: slot("n1"), new: "n1", of: at("2026-01-01T00:01:00.000000Z", "renewTime", "spec")},
		"it is given back":                   {old: slot("n1"), new: "", of: annotation(failures, `{"n1":"590"}`)},
		"failures, while another one has it": {old: slot("n2"), new: "n2", of: annotation(failures, `{}`)},
		"what others annotated stays":        {old: with(t, slot(""), annotation("a", "b")), new: "n1", of: annotation("a", "b")},
		"a new one for another node":         {new: "n2", want: own},
		"one that is free, for another":      {old: slot(""), new: "n2", want: own},
		"another's is given back":            {old: slot("n2"), new: "", want: own},
		"a Lease of another program":         {old: slot(""), new: "n1", of: at("kube-scheduler", "name", "metadata"), want: slots},
		"a slot of no number":                {new: "n1", of: at("driver-upgrade-x", "name", "metadata"), want: slots},
		"another annotation":                 {old: slot(""), new: "n1", of: annotation("a", "b"), want: annotate},
		"another annotation changes":         {old: with(t, slot(""), annotation("a", "b")), new: "n1", of: annotation("a", "c"), want: annotate},
		"failures without end":               {old: slot(""), new: "n1", of: annotation(failures, strings.Repeat("x", 65537)), want: annotate},
		"it cannot go":                       {old: slot(""), new: "n1", of: at([]any{"a.b/c"}, "finalizers", "metadata"), want: "adds no finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: "outrigger-driver-loader", bound: "n1", old: tc.old, new: with(t, slot(tc.new), tc.of)}, tc.want)
		})
	}
	if denied := p.denials(t, request{account: "outrigger-driver-loader", old: slot(""), new: slot("n1")}); len(denied) != 2 {
		t.Errorf("with a token of no node it is denied for %q", denied)
	}
}
