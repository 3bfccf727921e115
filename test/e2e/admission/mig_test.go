package admission_test

import (
	"maps"
	"testing"
)

func TestTheMIGManagerChangesWhatAChangeOfLayoutsDoes(t *testing.T) {
	const others = "the agent may not change "
	const cause, cordoned = "outrigger.dev/mig-config-cause", "outrigger.dev/mig-config-cordoned"
	p := load(t, "mig-manager/defaults.golden", "outrigger-mig-manager.gpu-operator-resources")
	in := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	changes := foreignOwners("mig-manager")
	maps.Copy(changes, cordons("mig-manager", cordoned))
	maps.Copy(changes, map[string]change{
		"the state of a config": {of: in("pending", "nvidia.com/mig.config.state", "metadata", "labels")},
		"its cause":             {of: in("c", cause, "metadata", "annotations")},
		"the state and its cause, with their ownership": {of: func(o fields) {
			part(o, "metadata", "labels")["nvidia.com/mig.config.state"] = "failed"
			part(o, "metadata", "annotations")[cause] = "c"
			own("mig-manager", "Apply", fields{"f:metadata": fields{
				"f:labels":      fields{"f:nvidia.com/mig.config.state": fields{}},
				"f:annotations": fields{"f:" + cause: fields{}},
			}})(o)
		}},
		"a pause of DaemonSets":    {of: in("paused-for-mig-change", "nvidia.com/gpu.deploy.client", "metadata", "labels")},
		"the record of a pause":    {of: in("all-balanced", "outrigger.dev/mig-config-paused", "metadata", "annotations")},
		"an agent of another kind": {in("false", "nvidia.com/gpu.deploy.driver", "metadata", "labels"), others + "these labels: nvidia.com/gpu.deploy.driver"},
		"the config itself":        {in("all-disabled", "nvidia.com/mig.config", "metadata", "labels"), others + "these labels: nvidia.com/mig.config"},
		"another annotation":       {in("c", "a", "metadata", "annotations"), others + "these annotations: a"},
		"a taint":                  {in([]any{}, "taints", "spec"), noSpec + ", but for its cordon: taints"},
		"what the kubelet tells":   {in(fields{"nvidia.com/gpu": "9"}, "capacity", "status"), noStatus + ": capacity"},
	})
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: "outrigger-mig-manager", bound: "n1", old: node(), new: with(t, node(), c.of)}, c.want)
		})
	}
	// What an agent that is uninstalled takes back.
	mine := with(t, node(), func(o fields) {
		set(o, "spec", "unschedulable", true)
		part(o, "metadata", "labels")["nvidia.com/mig.config.state"] = "pending"
		part(o, "metadata", "annotations")[cordoned] = "all-balanced"
	})
	p.check(t, request{account: "outrigger-mig-manager", bound: "n1", old: mine, new: node()}, "")
}

func TestTheMIGManagerEvictsByUID(t *testing.T) {
	p := load(t, "mig-manager/evict.golden", "evictions.outrigger-mig-manager.gpu-operator-resources")
	evicts(t, p, "outrigger-mig-manager")
	p.check(t, request{account: "outrigger-mig-manager", bound: "n1", namespace: "kube-system", new: evictionByUID()}, "no pod of kube-system")
}
