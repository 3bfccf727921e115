package admission_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// granted is the annotation that permits a node to begin an upgrade.
const granted = "outrigger.dev/driver-upgrade-granted"

func TestTheDriverLoaderChangesWhatAnUpgradeDoes(t *testing.T) {
	const (
		labels      = "the agent may not change these labels: "
		annotations = "the agent may not change these annotations: "
		metadata    = "the agent changes only labels and annotations in the metadata, not "
		cordoned    = "outrigger.dev/driver-upgrade-cordoned"
	)
	p := load(t, "driver-loader/defaults.golden", "outrigger-driver-loader.gpu-operator-resources")
	in := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	condition := func(name string) func(fields) {
		return func(o fields) {
			status := part(o, "status")
			status["conditions"] = append(slices.Clone(status["conditions"].([]any)), fields{"type": name, "status": "False", "reason": "R", "message": "m"})
		}
	}
	changes := foreignOwners("driver-loader")
	maps.Copy(changes, cordons("driver-loader", cordoned))
	maps.Copy(changes, map[string]change{
		"the state of an upgrade":  {of: in("upgrade-required", "nvidia.com/gpu-driver-upgrade-state", "metadata", "labels")},
		"a pause of DaemonSets":    {of: in("paused-for-driver-upgrade", "nvidia.com/gpu.deploy.client", "metadata", "labels")},
		"the record of a pause":    {of: in("590", "outrigger.dev/driver-upgrade-paused", "metadata", "annotations")},
		"its cause":                {of: in("c", "outrigger.dev/driver-upgrade-cause", "metadata", "annotations")},
		"a long cause":             {of: in(strings.Repeat("c", 1024), "outrigger.dev/driver-upgrade-cause", "metadata", "annotations")},
		"a cause that is too long": {in(strings.Repeat("c", 1025), "outrigger.dev/driver-upgrade-cause", "metadata", "annotations"), "the agent writes annotations of at most 1024 characters"},
		"the driver of an upgrade": {of: in("590", "outrigger.dev/driver-upgrade-driver", "metadata", "annotations")},
		"a grant":                  {in("590", granted, "metadata", "annotations"), annotations + granted},
		"the first annotation":     {of: in(fields{"a": "b", "nvidia.com/gpu-driver-upgrade-requested": "true"}, "annotations", "metadata")},
		"a label of GPUs":          {in("9", "nvidia.com/gpu.count", "metadata", "labels"), labels + "nvidia.com/gpu.count"},
		"no labels":                {func(o fields) { delete(part(o, "metadata"), "labels") }, labels},
		"another annotation":       {in("c", "a", "metadata", "annotations"), annotations + "a"},
		"no annotations":           {func(o fields) { delete(part(o, "metadata"), "annotations") }, annotations + "a"},
		"a finalizer":              {in([]any{"a.b/c"}, "finalizers", "metadata"), metadata + "finalizers"},
		"a taint":                  {in([]any{}, "taints", "spec"), noSpec + ", but for its cordon: taints"},
		"a field of tomorrow":      {in("x", "tomorrow", "spec"), noSpec + ", but for its cordon: tomorrow"},
		"what the kubelet tells":   {in(fields{"nvidia.com/gpu": "9"}, "capacity", "status"), noStatus + ", but for the condition GPUOptionalModulesLoaded: capacity"},
		"its condition":            {of: condition("GPUOptionalModulesLoaded")},
		"another condition":        {condition("GPUReady"), "the agent writes only the condition GPUOptionalModulesLoaded"},
	})
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: "outrigger-driver-loader", bound: "n1", old: node(), new: with(t, node(), c.of)}, c.want)
		})
	}
	grantedNode := with(t, node(), in("590", granted, "metadata", "annotations"))
	for name, of := range map[string]func(fields){
		"another grant": in("600", granted, "metadata", "annotations"),
		"no grant":      func(o fields) { delete(part(o, "metadata", "annotations"), granted) },
	} {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: "outrigger-driver-loader", bound: "n1", old: grantedNode, new: with(t, grantedNode, of)}, annotations+granted)
		})
	}
	cordon := with(t, node(), func(o fields) { set(o, "spec", "unschedulable", true) })
	for name, r := range map[string]request{
		"a token of another node": {account: "outrigger-driver-loader", bound: "n2", old: node(), new: cordon},
		"a token of no node":      {account: "outrigger-driver-loader", old: node(), new: cordon},
	} {
		if denied := p.denials(t, r); len(denied) == 0 {
			t.Errorf("%s may cordon the node", name)
		}
	}
}

func TestTheDriverLoaderEvictsByUID(t *testing.T) {
	p := load(t, "driver-loader/defaults.golden", "evictions.outrigger-driver-loader.gpu-operator-resources")
	evicts(t, p, "outrigger-driver-loader")
	// A drain evicts all pods of a node.
	p.check(t, request{account: "outrigger-driver-loader", bound: "n1", namespace: "kube-system", new: evictionByUID()}, "")
}

func TestTheWriterOfGrantsChangesNothingElse(t *testing.T) {
	const (
		account = "outrigger-driver-loader-upgrades"
		only    = "the program changes only the annotation " + granted + ", not "
	)
	p := load(t, "driver-loader/defaults.golden", account+".gpu-operator-resources")
	in := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	changes := foreignOwners("driver-loader-upgrades")
	maps.Copy(changes, map[string]change{
		"a grant": {of: func(o fields) {
			in("590", granted, "metadata", "annotations")(o)
			own("driver-loader-upgrades", "Update", fields{"f:metadata": fields{"f:annotations": fields{"f:" + granted: fields{}}}})(o)
		}},
		"a grant that is too long": {in(strings.Repeat("5", 1025), granted, "metadata", "annotations"), "an annotation of at most 1024 characters"},
		"another annotation":       {in("c", "a", "metadata", "annotations"), only + "a"},
		"the state of a node":      {in("upgrade-done", "nvidia.com/gpu-driver-upgrade-state", "metadata", "labels"), only + "labels"},
		"a finalizer":              {in([]any{"a.b/c"}, "finalizers", "metadata"), only + "finalizers"},
		"a cordon":                 {in(true, "unschedulable", "spec"), only + "the spec"},
		"a taint":                  {in([]any{}, "taints", "spec"), only + "the spec"},
		"what the kubelet tells":   {in(fields{"nvidia.com/gpu": "9"}, "capacity", "status"), only + "the spec"},
	})
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			p.check(t, request{account: account, bound: "n2", old: node(), new: with(t, node(), c.of)}, c.want)
		})
	}
	granting := with(t, node(), in("590", granted, "metadata", "annotations"))
	p.check(t, request{account: account, bound: "n2", old: granting, new: node()}, "")
}

func TestTheWriterOfGrantsWritesItsConfigMap(t *testing.T) {
	const account = "outrigger-driver-loader-upgrades"
	p := load(t, "driver-loader/defaults.golden", "configmaps."+account+".gpu-operator-resources")
	named := func(name string) fields { return fields{"metadata": fields{"name": name}, "data": fields{}} }
	p.check(t, request{account: account, new: named("driver-upgrades")}, "")
	p.check(t, request{account: account, old: named("driver-upgrades"), new: named("driver-upgrades")}, "")
	p.check(t, request{account: account, new: with(t, named("driver-upgrades"), func(o fields) { part(o, "metadata")["annotations"] = fields{"a": "b"} })}, "without annotations")
	p.check(t, request{account: account, new: named("config")}, "the program writes only the ConfigMap driver-upgrades")
	p.check(t, request{account: account, new: with(t, named("driver-upgrades"), func(o fields) { part(o, "metadata")["finalizers"] = []any{"a.b/c"} })}, "adds no finalizers")
}
