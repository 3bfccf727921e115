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
	p := load(t, "mig-manager/evict.golden", "evictions.outrigger-mig-manager.gpu-operator-resources")
	evicts(t, p, "outrigger-mig-manager")
	p.check(t, request{account: "outrigger-mig-manager", bound: "n1", namespace: "kube-system", new: evictionByUID()}, "no pod of kube-system")
}
