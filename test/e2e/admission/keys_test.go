package admission_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// clusterPolicy returns a ClusterPolicy with a spec in YAML.
func clusterPolicy(t *testing.T, spec string) fields {
	t.Helper()
	var values fields
	if err := yaml.Unmarshal([]byte(spec), &values); err != nil {
		t.Fatal(err)
	}
	return fields{"metadata": fields{"name": "cluster-policy"}, "spec": values}
}

func TestUnknownKeysOfAClusterPolicyAreRejected(t *testing.T) {
	p := load(t, orchestratorPolicies, "keys.outrigger-orchestrator.gpu-operator")
	for spec, want := range map[string]string{
		`{}`:                                 "",
		`{devicePlugin: null, global: null}`: "",
		`{devicePlugin: {enabled: false, mps: {enabled: null}}, mig: {strategy: single}}`:       "",
		`{devicePlugin: {image: registry/a, env: [{name: A, value: b, any: 1}], affinity: {}}}`: "",
		`{pools: [{name: a, nodeSelector: {a: b}, values: {typo: 1}}]}`:                         "",
		`{gds: {any: {key: 1}}, global: {imagePullSecrets: [a, {name: b}]}}`:                    "",
		`{devicePlugn: {}}`:                                   "unknown keys in spec: devicePlugn; kubectl explain",
		`{devicePlugin: {enable: true}}`:                      ": devicePlugin.enable;",
		`{devicePlugin: {mps: {root: a, rot: b}}}`:            ": devicePlugin.mps.rot;",
		`{driver: {upgradePolicy: {typo: 1}}, a: 1}`:          ": a, driver.upgradePolicy.typo;",
		`{pools: [{name: a, nodeSelector: {}, value: {}}]}`:   ": pools[].value;",
		`{global: {imagePullSecrets: [{nam: b}, c, {x: y}]}}`: ": global.imagePullSecrets[].nam, global.imagePullSecrets[].x;",
		`{toolkit: {image: {repo: a}}}`:                       ": toolkit.image.repo;",
	} {
		t.Run(spec, func(t *testing.T) {
			o := clusterPolicy(t, spec)
			p.check(t, request{resource: "clusterpolicies", new: o}, want)
			p.check(t, request{resource: "clusterpolicies", old: clusterPolicy(t, `{mig: {}}`), new: o}, want)
		})
	}
	for what, r := range map[string]request{
		"the finalizers of a policy with unknown keys": {
			old: clusterPolicy(t, `{a: 1}`), new: with(t, clusterPolicy(t, `{a: 1}`), func(o fields) { part(o, "metadata")["finalizers"] = []any{} }),
		},
		"a policy of another version": {
			new: with(t, clusterPolicy(t, `{a: 1}`), func(o fields) { part(o, "metadata")["labels"] = fields{"app.kubernetes.io/version": "27.1.0"} }),
		},
	} {
		if p.matches(t, r) {
			t.Errorf("it is for %s", what)
		}
	}
}

// TestAcceptedValuesAreAcceptedInAClusterPolicy has the values that the charts accept.
func TestAcceptedValuesAreAcceptedInAClusterPolicy(t *testing.T) {
	p := load(t, orchestratorPolicies, "keys.outrigger-orchestrator.gpu-operator")
	files, err := filepath.Glob(golden + "outrigger/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find values: %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			p.check(t, request{resource: "clusterpolicies", new: clusterPolicy(t, string(text))}, "")
		})
	}
}
