package admission_test

import "testing"

func TestTheMIGManagerChangesWhatAChangeOfLayoutsDoes(t *testing.T) {
	const others = "the agent may not change "
	p := load(t, "mig-manager/defaults.golden", "outrigger-mig-manager.gpu-operator-resources")
	in := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	for name, c := range map[string]change{
		"the state of a config": {of: in("pending", "nvidia.com/mig.config.state", "metadata", "labels")},
		"its cause":             {of: in("c", "outrigger.dev/mig-config-cause", "metadata", "annotations")},
		"cordon, and who did it": {of: func(o fields) {
			set(o, "spec", "unschedulable", true)
			part(o, "metadata", "annotations")["outrigger.dev/mig-config-cordoned"] = "all-balanced"
		}},
		"the config itself":      {in("all-disabled", "nvidia.com/mig.config", "metadata", "labels"), others + "these labels: nvidia.com/mig.config"},
		"another annotation":     {in("c", "a", "metadata", "annotations"), others + "these annotations: a"},
		"a taint":                {in([]any{}, "taints", "spec"), others + "taints"},
		"what the kubelet tells": {in(fields{"nvidia.com/gpu": "9"}, "capacity", "status"), others + "capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: "outrigger-mig-manager", bound: "n1", old: node(), new: with(t, node(), c.of)}, c.want)
		})
	}
	// What an agent that is uninstalled takes back.
	mine := with(t, node(), func(o fields) {
		set(o, "spec", "unschedulable", true)
		part(o, "metadata", "labels")["nvidia.com/mig.config.state"] = "pending"
		part(o, "metadata", "annotations")["outrigger.dev/mig-config-cordoned"] = "all-balanced"
	})
	p.check(t, request{account: "outrigger-mig-manager", bound: "n1", old: mine, new: node()}, "")
}

func TestTheMIGManagerEvictsByUID(t *testing.T) {
	const byUID, asked = "the agent evicts a pod by its uid only", "the agent evicts pods as they ask for"
	p := load(t, "mig-manager/evict.golden", "evictions.outrigger-mig-manager.gpu-operator-resources")
	eviction := func() fields {
		return fields{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": fields{"name": "train-0", "namespace": "team"},
			"deleteOptions": fields{"preconditions": fields{"uid": "6e2f"}},
		}
	}
	for name, c := range map[string]change{
		"a pod by its uid": {},
		"to try it":        {of: func(o fields) { part(o, "deleteOptions")["dryRun"] = []any{"All"} }},
		"by its name":      {func(o fields) { delete(o, "deleteOptions") }, byUID},
		"by its version":   {func(o fields) { part(o, "deleteOptions")["preconditions"] = fields{"resourceVersion": "7"} }, byUID},
		"by no uid":        {func(o fields) { part(o, "deleteOptions")["preconditions"] = fields{"uid": ""} }, byUID},
		"at once":          {func(o fields) { part(o, "deleteOptions")["gracePeriodSeconds"] = 0 }, asked},
	} {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: "outrigger-mig-manager", bound: "n1", namespace: "team", new: with(t, eviction(), c.of)}, c.want)
		})
	}
	for name, r := range map[string]request{
		"a pod of the cluster itself": {account: "outrigger-mig-manager", bound: "n1", namespace: "kube-system", new: eviction()},
		"with a token of no node":     {account: "outrigger-mig-manager", namespace: "team", new: eviction()},
	} {
		if denied := p.denials(t, r); len(denied) != 1 {
			t.Errorf("%s is denied for %q", name, denied)
		}
	}
}
