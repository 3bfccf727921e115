package render_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/pools/poolstest"
	"outrigger.dev/orchestrator/internal/render"
)

var update = flag.Bool("update", false, "write the golden file")

const mixed = `
devicePlugin:
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: nvidia.com/gpu.present, operator: In, values: ["true"]}]}]}}}
pools:
- name: h100
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100}
  values: {devicePlugin: {migStrategy: mixed}}
- name: edge
  nodeSelector: {zone: edge, os: flatcar}
  values: {toolkit: {enabled: false}}
`

func withPools(t *testing.T, text string) ([]model.Stage, error) {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return render.Stages(render.Config{Release: charts.Release{Name: "outrigger", Namespace: "gpu-operator", Kubernetes: "v1.36.3", Values: values}})
}

// TestAPoolHasADriverOfItsOwn is for nodes with another distribution.
func TestAPoolHasADriverOfItsOwn(t *testing.T) {
	list, err := withPools(t, `
driver: {enabled: true, repository: r.example.org, version: 580.95.05-ubuntu22.04}
pools:
- name: rocky
  nodeSelector: {os: rocky}
  values: {driver: {version: 580.95.05-rocky9}}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, st := range list {
		for _, o := range st.Objects {
			if !strings.HasPrefix(st.Name, "driver-loader") || o.GetKind() != "DaemonSet" {
				continue
			}
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			got[st.Pool] = fmt.Sprint(containers[0].(map[string]any)["image"])
		}
	}
	want := map[string]string{"": "r.example.org/driver:580.95.05-ubuntu22.04", "rocky": "r.example.org/driver:580.95.05-rocky9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images of the pools (-want +got):\n%s", diff)
	}
}

// TestEachPoolHasTheDriversOfItsNodes looks at the DaemonSets of a driver whose image depends on the distribution.
func TestEachPoolHasTheDriversOfItsNodes(t *testing.T) {
	values := map[string]any{}
	text := "driver: {enabled: true, repository: r.example.org, version: '580'}\npools: [{name: a, nodeSelector: {pool: a}}, {name: b, nodeSelector: {pool: b}}]"
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	ubuntu, debian := charts.Node{ID: "ubuntu", Version: "22.04"}, charts.Node{ID: "debian", Version: "12"}
	list, err := render.Stages(render.Config{
		Kinds:   pools.Kinds{"": {ubuntu, debian}, "a": {debian}},
		Release: charts.Release{Name: "gpu", Namespace: "gpu-operator", Kubernetes: "v1.36.3", Values: values},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, st := range list {
		for _, o := range st.Objects {
			if st.Chart() == "driver-loader" && o.GetKind() == "DaemonSet" {
				got = append(got, st.Name+": "+o.GetName())
			}
		}
	}
	slices.Sort(got)
	want := []string{"driver-loader/a: gpu-a-driver-loader-debian12", "driver-loader: gpu-driver-loader-debian12", "driver-loader: gpu-driver-loader-ubuntu22-04"}
	if !slices.Equal(got, want) {
		t.Errorf("DaemonSets of the driver: %q, want %q", got, want)
	}
}

// TestAllPoolsShareTheDeploymentThatGrantsUpgrades also where the other nodes have no driver loader.
func TestAllPoolsShareTheDeploymentThatGrantsUpgrades(t *testing.T) {
	for enabled, want := range map[string]string{"true": "driver-loader", "false": "driver-loader/a"} {
		list, err := withPools(t, `
driver: {enabled: `+enabled+`, repository: r.example.org, version: 580.95.05-ubuntu22.04}
pools:
- {name: a, nodeSelector: {pool: a}, values: {driver: {enabled: true, tolerations: [{operator: Exists}]}}}
- {name: b, nodeSelector: {pool: b}, values: {driver: {enabled: true, logLevel: debug}}}
`)
		if err != nil {
			t.Fatal(err)
		}
		sets, deployments, accounts := 0, []string{}, 0
		for _, st := range list {
			for _, o := range st.Objects {
				switch {
				case st.Chart() != "driver-loader":
				case o.GetKind() == "DaemonSet":
					sets++
				case o.GetKind() == "Deployment":
					deployments = append(deployments, st.Name)
				case o.GetKind() == "ServiceAccount" && strings.HasSuffix(o.GetName(), "-upgrades"):
					accounts++
				}
			}
		}
		if sets < 2 || !slices.Equal(deployments, []string{want}) || accounts != 1 {
			t.Errorf("with driver.enabled=%s: %d DaemonSets, Deployments in the stages %q, %d accounts", enabled, sets, deployments, accounts)
		}
	}
}

func hasDaemonSet(st model.Stage, name string) bool {
	return slices.ContainsFunc(st.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" && o.GetName() == name })
}

// TestPools renders the charts for two pools.
func TestPools(t *testing.T) {
	list, err := withPools(t, mixed)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, st := range list {
		fmt.Fprintf(&out, "%s pool=%q\n", st.Name, st.Pool)
		for _, o := range st.Objects {
			if k := o.GetKind(); k == "DaemonSet" || k == "RuntimeClass" || k == "ServiceAccount" || k == "Service" {
				fmt.Fprintf(&out, "  %s %s\n", k, o.GetName())
			}
		}
		for _, check := range st.Validations {
			fmt.Fprintf(&out, "  validation %s of %s\n", check.Name, st.Name)
			if len(check.DaemonSets) == 0 || slices.ContainsFunc(check.DaemonSets, func(name string) bool { return !hasDaemonSet(st, name) }) {
				t.Errorf("%s of %s waits for the DaemonSets %q", check.Name, st.Name, check.DaemonSets)
			}
		}
	}
	const file = "testdata/pools.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

// TestEachNodeHasOneDaemonSetOfAChart looks at which DaemonSets would run on nodes, also on one
// that belongs to both pools.
func TestEachNodeHasOneDaemonSetOfAChart(t *testing.T) {
	list, err := withPools(t, mixed)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		labels map[string]string
		want   []string
	}{
		"a node of no pool": {nil, []string{"container-toolkit", "dcgm-exporter", "device-plugin", "feature-discovery"}},
		"a node of a pool": {
			map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100"},
			[]string{"container-toolkit/h100", "dcgm-exporter/h100", "device-plugin/h100", "feature-discovery"},
		},
		"half of the selector": {map[string]string{"zone": "edge"}, []string{"container-toolkit", "dcgm-exporter", "device-plugin", "feature-discovery"}},
		"a node of a pool without an agent": {
			map[string]string{"zone": "edge", "os": "flatcar"}, []string{"dcgm-exporter/edge", "device-plugin/edge", "feature-discovery"},
		},
		"a node of both pools": {
			map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100", "zone": "edge", "os": "flatcar"},
			[]string{"container-toolkit/h100", "dcgm-exporter/h100", "device-plugin/h100", "feature-discovery"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := map[string]string{"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true"}
			maps.Copy(node, tc.labels)
			var got []string
			for _, st := range list {
				if slices.ContainsFunc(st.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "DaemonSet" && selects(t, o, node) }) {
					got = append(got, st.Name)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("the node has %q, want %q", got, tc.want)
			}
		})
	}
}

// TestValidationsOfAPoolRunOnItsNodes looks at which nodes the pods of validations select.
func TestValidationsOfAPoolRunOnItsNodes(t *testing.T) {
	list, err := withPools(t, mixed)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, st := range list {
		for _, check := range st.Validations {
			got, _, err := unstructured.NestedStringMap(check.Template.Object, "template", "spec", "nodeSelector")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]map[string]string{
				"": nil, "h100": {"nvidia.com/gpu.product": "NVIDIA-H100"}, "edge": {"zone": "edge", "os": "flatcar"},
			}[st.Pool]
			if !maps.Equal(got, want) {
				t.Errorf("%s selects %v, want %v", check.Name, got, want)
			}
			seen++
		}
	}
	if seen == 0 {
		t.Error("there are no validations")
	}
}

// TestObjectsOfTheSameName looks at agents that share an object, and at objects that have only their names in common.
func TestObjectsOfTheSameName(t *testing.T) {
	for name, tc := range map[string]struct{ values, err string }{
		"two agents": {
			"devicePlugin: {fullnameOverride: x}\ndcgmExporter: {fullnameOverride: x}",
			"DaemonSet gpu-operator-resources/x of the stage device-plugin: the stage dcgm-exporter has the same object with other content: set another name",
		},
		"two pools": {
			"toolkit: {enabled: false}\npools:\n- {name: a, nodeSelector: {pool: a}, values: {toolkit: {enabled: true, fullnameOverride: x}}}\n" +
				"- {name: b, nodeSelector: {pool: b}, values: {toolkit: {enabled: true, fullnameOverride: x, logLevel: debug}}}",
			"DaemonSet gpu-operator-resources/x of the stage container-toolkit/b: the stage container-toolkit/a has the same object with other content",
		},
		"pools that share RuntimeClasses, which the other nodes do not have": {
			"toolkit: {enabled: false}\npools:\n- {name: a, nodeSelector: {pool: a}, values: {toolkit: {enabled: true}}}\n- {name: b, nodeSelector: {pool: b}, values: {toolkit: {enabled: true}}}", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := withPools(t, tc.values)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("Stages() = %v, want %q in it", err, tc.err)
			}
			seen := map[model.Ref]bool{}
			for _, ref := range model.Inventory(list) {
				if seen[ref] {
					t.Errorf("two stages have %s", ref)
				}
				seen[ref] = true
			}
		})
	}
}

func TestRefusedValues(t *testing.T) {
	for name, tc := range map[string]struct{ values, err string }{
		"feature discovery in a pool":   {"pools: [{name: a, nodeSelector: {x: z}, values: {gfd: {enabled: false}}}]", "pools, pool a: values.gfd: it must be the same on all nodes"},
		"simulated GPUs in a pool only": {"pools: [{name: a, nodeSelector: {x: z}, values: {sim: {enabled: true}}}]", "pools, pool a: values.sim: it must be the same on all nodes"},
		"an unknown key in a pool":      {"pools: [{name: a, nodeSelector: {x: z}, values: {devicePlugin: {migStrateg: none}}}]", "pools[0].values.devicePlugin.migStrateg: unknown key"},
		"pools that overlap":            {"pools: [{name: a, nodeSelector: {x: z}}, {name: b, nodeSelector: {x: z}}]", "pools a and b overlap"},
		"no list":                       {"pools: {name: a}", "pools: got object"},
		"no map":                        {"pools: [a]", "pools[0]: got string"},
		"no name":                       {"pools: [{nodeSelector: {gpu: l4}}]", "pools[0].name: the value is missing; add it"},
		"an empty name":                 {"pools: [{name: '', nodeSelector: {gpu: l4}}]", "pools[0].name: '' does not match"},
		"a name that is no label":       {"pools: [{name: L4_x, nodeSelector: {gpu: l4}}]", "pools[0].name: 'L4_x' does not match"},
		"a name that is too long":       {"pools: [{name: abcdefghijklmnopqrstu, nodeSelector: {gpu: l4}}]", "pools[0].name: maxLength"},
		"a name twice":                  {"pools: [{name: a, nodeSelector: {gpu: l4}}, {name: a, nodeSelector: {gpu: h100}}]", "pools[1].name: a is the name of another pool"},
		"no selector":                   {"pools: [{name: a}]", "pools[0].nodeSelector: the value is missing; add it"},
		"an empty selector":             {"pools: [{name: a, nodeSelector: {}}]", "pools[0].nodeSelector: minProperties"},
		"a label that is no text":       {"pools: [{name: a, nodeSelector: {gpu: true}}]", "pools[0].nodeSelector.gpu: got boolean, want string"},
		"an unknown key of a pool":      {"pools: [{name: a, nodeSelector: {gpu: l4}, value: {}}]", "pools[0].value: unknown key; write pools[0].values, or remove it"},
		"values that are no map":        {"pools: [{name: a, nodeSelector: {gpu: l4}, values: 3}]", "pools[0].values: got number"},
		"too many":                      {"pools: [" + strings.Repeat("{name: a, nodeSelector: {gpu: l4}},", 17) + "]", "pools: maxItems: got 17, want 16"},
		"a driver for nodes that are not known": {
			"driver: {enabled: true, repository: r.example.org, version: 580.95.05}", "driver.version: only the controller of the orchestrator",
		},
		"a problem of all nodes, and others of a pool": {
			"migManager: {config: {default: half}}\npools: [{name: a, nodeSelector: {x: z}, values: {migManager: {config: {default: third}}, dcgmExporter: {metrics: {port: 0}, service: {enabled: true}}}}]",
			"such as all-1g.10gb; write one of these names, or set config.name to a ConfigMap that has it\npools[0].values.dcgmExporter.service.enabled: nobody",
		},
		"an unknown key outside": {"devicePlugn: {}\npools: [{name: a, nodeSelector: {x: z}}]", "devicePlugn"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := withPools(t, tc.values); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("Stages() = %v, want %q in it", err, tc.err)
			}
		})
	}
}

// selects reports whether a DaemonSet has a pod on a node with these labels.
func selects(t *testing.T, o *unstructured.Unstructured, node map[string]string) bool {
	t.Helper()
	required, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "spec", "nodeSelector")
	if err != nil {
		t.Fatal(err)
	}
	affinity, _, err := unstructured.NestedMap(o.Object, "spec", "template", "spec", "affinity")
	if err != nil {
		t.Fatal(err)
	}
	return pools.Pool{NodeSelector: required}.Matches(node) && poolstest.Allows(t, affinity, node)
}
