package admission_test

import "testing"

func evictionByUID() fields {
	return fields{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": fields{"name": "train-0", "namespace": "team"},
		"deleteOptions": fields{"preconditions": fields{"uid": "6e2f"}},
	}
}

// evicts checks what a policy lets an account evict.
func evicts(t *testing.T, p policy, account string) {
	t.Helper()
	const byUID, asked = "the agent evicts a pod by its uid only", "the agent evicts pods as they ask for"
	for name, c := range map[string]change{
		"a pod by its uid": {},
		"to try it":        {of: func(o fields) { part(o, "deleteOptions")["dryRun"] = []any{"All"} }},
		"by its name":      {func(o fields) { delete(o, "deleteOptions") }, byUID},
		"by its version":   {func(o fields) { part(o, "deleteOptions")["preconditions"] = fields{"resourceVersion": "7"} }, byUID},
		"by no uid":        {func(o fields) { part(o, "deleteOptions")["preconditions"] = fields{"uid": ""} }, byUID},
		"at once":          {func(o fields) { part(o, "deleteOptions")["gracePeriodSeconds"] = 0 }, asked},
	} {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: account, bound: "n1", namespace: "team", new: with(t, evictionByUID(), c.of)}, c.want)
		})
	}
	if denied := p.denials(t, request{account: account, namespace: "team", new: evictionByUID()}); len(denied) != 1 {
		t.Errorf("with a token of no node it is denied for %q", denied)
	}
}
