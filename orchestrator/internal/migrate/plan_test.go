package migrate_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/pools"
)

var update = flag.Bool("update", false, "write the golden files")

// versions are the versions of NVIDIA's chart that a plan is tested with.
func versions() []string {
	return []string{"22.9", "23.3", "23.6", "23.9", "24.3", "24.6", "24.9", "25.3", "25.10", "26.3", "26.7"}
}

func source(t *testing.T, files ...string) migrate.Source {
	t.Helper()
	var s migrate.Source
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := migrate.Read(file, text, &s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func plan(s migrate.Source, o migrate.Options) *migrate.Plan {
	o.Registry = "registry.example.org/gpu"
	return migrate.New(s, o)
}

func decode(t *testing.T, text string) migrate.Source {
	t.Helper()
	var s migrate.Source
	if err := migrate.Read("test", []byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// renders fails the test if the chart rejects values, or ignores some.
func renders(t *testing.T, what string, values map[string]any) {
	t.Helper()
	problems, notes, err := charts.Check(charts.Release{Name: "outrigger", Namespace: "outrigger", Kubernetes: "v1.36.0", Values: values})
	if err != nil || len(problems)+len(notes) > 0 {
		t.Errorf("%s: %v %v %v", what, err, problems, notes)
	}
}

// TestEveryVersion plans the default values and the ClusterPolicy of each version. All components must be enabled, with
// the driver that NVIDIA's operator installs, and the values must render.
func TestEveryVersion(t *testing.T) {
	for _, version := range versions() {
		for _, file := range []string{"../../../charts/testdata/nvidia/v" + version + ".yaml", "testdata/clusterpolicy-" + version + ".yaml"} {
			t.Run(filepath.Base(file), func(t *testing.T) {
				s := source(t, file)
				p := plan(s, migrate.Options{})
				renders(t, "the values", p.Start)
				r := charts.Release{Name: "outrigger", Namespace: "outrigger", Kubernetes: "v1.36.0", Values: p.Values, Nodes: []charts.Node{{Kernel: "6.8.0-60-generic", ID: "ubuntu", Version: "22.04"}}}
				if _, err := charts.Stages(r); err != nil {
					t.Errorf("the final values: %v", err)
				}
				if len(p.Refused) > 0 {
					t.Errorf("default values are refused: %v", p.Refused)
				}
				if len(p.Steps) != len(migrate.Components()) || p.Steps[len(p.Steps)-1].Name != migrate.Driver {
					t.Errorf("steps are %v", p.Steps)
				}
				theirs, _ := s.Values["driver"].(map[string]any)
				ours, _ := p.Values["driver"].(map[string]any)
				if theirs["version"] != ours["version"] || ours["version"] == nil {
					t.Errorf("driver %v becomes %v", theirs["version"], ours["version"])
				}
			})
		}
	}
}

// TestHostDrivers plans for nodes with a driver of the host, although the values enable NVIDIA's driver container.
func TestHostDrivers(t *testing.T) {
	const root = "/run/nvidia/driver"
	for name, c := range map[string]struct {
		host, other int
		root        any
		refused     bool
	}{
		"no node":   {0, 2, root, false},
		"all nodes": {2, 0, nil, false},
		"one node":  {1, 1, root, true},
	} {
		for _, version := range []string{"22.9", "26.7"} {
			p := plan(source(t, "testdata/clusterpolicy-"+version+".yaml"), migrate.Options{HostDrivers: c.host, OtherDrivers: c.other})
			renders(t, name, p.Start)
			global, _ := p.Start["global"].(map[string]any)
			refused := slices.ContainsFunc(p.Refused, func(d migrate.Difference) bool { return d.Path == "driver.enabled" })
			driver := slices.ContainsFunc(p.Steps, func(c migrate.Component) bool { return c.Name == migrate.Driver })
			if global["nvidiaDriverRoot"] != c.root || refused != c.refused || driver != (c.other > 0) {
				t.Errorf("%s, %s: root %v, a step for the driver: %v, refused: %v", name, version, global["nvidiaDriverRoot"], driver, p.Refused)
			}
		}
	}
}

func TestText(t *testing.T) {
	for name, file := range map[string]string{
		"values-22.9": "../../../charts/testdata/nvidia/v22.9.yaml", "clusterpolicy-26.7": "testdata/clusterpolicy-26.7.yaml",
	} {
		p := plan(source(t, file), migrate.Options{})
		values, err := yaml.Marshal(p.Start)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".golden", p.Text()+"\nValues during the migration:\n"+string(values))
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // everyone may read it
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got); run with -update:\n%s", file, d)
	}
}

// TestDifferences checks in which list a value is, and what the plan says about it.
func TestDifferences(t *testing.T) {
	const all = "changed ignored refused"
	for name, c := range map[string]struct {
		values, list, want string
		o                  migrate.Options
	}{
		"an image of NVIDIA":                         {"devicePlugin: {repository: nvcr.io/nvidia, image: k8s-device-plugin, version: v0.18.0}", "changed", "devicePlugin.image nvcr.io/nvidia/k8s-device-plugin:v0.18.0", migrate.Options{}},
		"an image in a mirror":                       {"toolkit: {repository: mirror.example.org/x, image: container-toolkit, version: v1.18.0}", "changed", "toolkit.image mirror.example.org/x/container-toolkit:v1.18.0", migrate.Options{}},
		"an image with a digest":                     {"gfd: {repository: nvcr.io/nvidia, image: k8s-device-plugin, version: 'sha256:abc'}", "changed", "gfd.image nvcr.io/nvidia/k8s-device-plugin@sha256:abc", migrate.Options{}},
		"a whole reference of the driver":            {"driver: {enabled: true, image: 'r.example.org/nvidia/driver:580.95.05-ubuntu22.04'}", "changed", "driver.image r.example.org/nvidia/driver:580.95.05-ubuntu22.04", migrate.Options{}},
		"DCGM":                                       {"dcgm: {enabled: true}", "refused", "dcgm.enabled true", migrate.Options{}},
		"DCGM that is off":                           {"dcgm: {enabled: false, image: x}", "ignored", "dcgm 2 values", migrate.Options{}},
		"virtual machines":                           {"sandboxWorkloads: {enabled: true, defaultWorkload: vm-vgpu}", "refused", "sandboxWorkloads.enabled true", migrate.Options{}},
		"a manager of virtual GPUs":                  {"vgpuManager: {enabled: true, repository: a, image: b, version: c}", "refused", "vgpuManager.enabled true", migrate.Options{}},
		"a key that nobody knows":                    {"devicePlugin: {notAKey: 1}", "refused", "devicePlugin.notAKey 1", migrate.Options{}},
		"a value that the schema rejects":            {"daemonsets: {updateStrategy: Sometimes}", "refused", "daemonsets.updateStrategy Sometimes", migrate.Options{}},
		"an item of a list that the schema rejects":  {"toolkit: {env: [{nam: A}, {name: B, value: c}]}", "refused", "toolkit.env[0]", migrate.Options{}},
		"a value that a template rejects":            {"operator: {defaultRuntime: podman}", "refused", "operator.defaultRuntime podman", migrate.Options{}},
		"virtual topology":                           {"driver: {enabled: true, repository: nvcr.io/nvidia, version: 580.95.05, virtualTopology: {config: x}}", "refused", "driver.virtualTopology", migrate.Options{}},
		"a driver without a version":                 {"driver: {enabled: true}", "refused", "driver.version", migrate.Options{}},
		"a driver without a registry":                {"driver: {enabled: true, version: 580.95.05}", "changed", "driver.repository  nvcr.io/nvidia", migrate.Options{}},
		"a runtime that nodes have no more":          {"operator: {defaultRuntime: docker}", "ignored", "operator.defaultRuntime docker", migrate.Options{}},
		"Node Feature Discovery":                     {"nfd: {enabled: true}", "changed", "nfd.enabled true false", migrate.Options{}},
		"a probe":                                    {"driver: {startupProbe: {failureThreshold: 120}}", "ignored", "driver.startupProbe", migrate.Options{}},
		"a pod security policy":                      {"psp: {enabled: true}", "ignored", "psp 1 values", migrate.Options{}},
		"package repositories":                       {"driver: {enabled: true, repository: nvcr.io/nvidia, version: 580.95.05, repoConfig: {configMapName: a}}", "changed", "driver.repoConfig.destinationDir  /etc/apt/sources.list.d", migrate.Options{}},
		"package repositories of Red Hat":            {"driver: {enabled: true, repository: nvcr.io/nvidia, version: 580.95.05, repoConfig: {configMapName: a}}", "changed", "driver.repoConfig.destinationDir  /etc/yum.repos.d", migrate.Options{Nodes: []charts.Node{{ID: "rhel", Version: "9.4", Major: "9"}}}},
		"a ServiceMonitor without the kind":          {"dcgmExporter: {serviceMonitor: {enabled: true}}", "changed", "dcgmExporter.serviceMonitor.enabled true false", migrate.Options{NoServiceMonitors: true}},
		"GPUs by NVIDIA's runtime":                   {"cdi: {enabled: false}", "changed", "toolkit.runtime.setAsDefault  true", migrate.Options{}},
		"GPUs by NVIDIA's runtime before v25.10":     {"devicePlugin: {env: [{name: DEVICE_LIST_STRATEGY, value: envvar}]}", "changed", "cdi.enabled  false", migrate.Options{}},
		"a module without a driver":                  {"driver: {enabled: false}\ngdrcopy: {enabled: true}", "changed", "gdrcopy", migrate.Options{}},
		"a ClusterPolicy with drivers of its own":    {"apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {driver: {useNvidiaDriverCRD: true}}", "changed", "driver.nvidiaDriverCRD.enabled true false", migrate.Options{}},
		"a driver for hosts of virtual machines":     {"apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: a}\nspec: {driverType: vgpu-host-manager}", "refused", "NVIDIADriver a driverType vgpu-host-manager", migrate.Options{}},
		"a GPUCluster":                               {"apiVersion: nvidia.com/v1alpha1\nkind: GPUCluster\nmetadata: {name: gpu-cluster}", "refused", "GPUCluster", migrate.Options{}},
		"a namespace that accepts no privileged pod": {"psa: {enabled: false}", "changed", "psa.enabled false", migrate.Options{}},
	} {
		p := plan(decode(t, c.values), c.o)
		lists := map[string][]migrate.Difference{"changed": p.Changed, "ignored": p.Ignored, "refused": p.Refused}
		for list := range strings.FieldsSeq(all) {
			found := slices.ContainsFunc(lists[list], func(d migrate.Difference) bool {
				return strings.HasPrefix(strings.TrimRight(d.Path+" "+d.From+" "+d.To, " ")+" ", c.want) && d.Why != ""
			})
			if found != (list == c.list) {
				t.Errorf("%s: in %s: %t; it is %v", name, list, found, lists[list])
			}
		}
	}
}

// TestPoliciesHaveTheDefaultsOfTheirOperator checks that a ClusterPolicy without sections enables what NVIDIA's operator
// installs for it.
func TestPoliciesHaveTheDefaultsOfTheirOperator(t *testing.T) {
	p := plan(decode(t, "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {dcgmExporter: {enabled: false}, driver: {version: 580.95.05}}"), migrate.Options{})
	var names []string
	for _, c := range p.Steps {
		names = append(names, c.Name)
	}
	if d := cmp.Diff([]string{"feature-discovery", "mig-manager", "device-plugin", "toolkit", "driver"}, names); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
}

// TestDriversBecomePools plans three NVIDIADriver objects: the one for all nodes, and two for nodes with a label.
func TestDriversBecomePools(t *testing.T) {
	p := plan(decode(t, `
apiVersion: v1
kind: List
items:
- {apiVersion: nvidia.com/v1, kind: ClusterPolicy, spec: {driver: {useNvidiaDriverCRD: true}}}
- {apiVersion: nvidia.com/v1alpha1, kind: NVIDIADriver, metadata: {name: a100.new}, spec: {driverType: gpu, repository: nvcr.io/nvidia, image: driver, version: 580.95.05, nodeSelector: {pool: a100}, repoConfig: {name: packages}, upgradePolicy: {podDeletion: {force: true}}}}
- {apiVersion: nvidia.com/v1alpha1, kind: NVIDIADriver, metadata: {name: default}, spec: {driverType: gpu, repository: nvcr.io/nvidia, image: driver, version: 550.90.07, nodeSelector: {}, certConfig: {name: ""}}}
`), migrate.Options{})
	renders(t, "pools", p.Start)
	values, err := yaml.Marshal(map[string]any{"driver": p.Values["driver"], "pools": p.Values["pools"]})
	if err != nil {
		t.Fatal(err)
	}
	want := `driver:
  enabled: true
  image: driver
  nvidiaDriverCRD:
    enabled: false
  repository: nvcr.io/nvidia
  version: 550.90.07
pools:
- name: a100-new
  nodeSelector:
    pool: a100
  values:
    driver:
      enabled: true
      image: driver
      repoConfig:
        configMapName: packages
        destinationDir: /etc/apt/sources.list.d
      repository: nvcr.io/nvidia
      upgradePolicy:
        gpuPodDeletion:
          force: true
      version: 580.95.05
`
	if d := cmp.Diff(want, string(values)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestPoolsOfSimilarDrivers plans NVIDIADriver objects whose names have a long common part, that lack a field, and whose
// selectors overlap.
func TestPoolsOfSimilarDrivers(t *testing.T) {
	const driver = "- {apiVersion: nvidia.com/v1alpha1, kind: NVIDIADriver, metadata: {name: driver-of-the-data-centre-NAME}, spec: {driverType: gpu, repository: nvcr.io/nvidia, image: driver, VERSION nodeSelector: {SELECTOR}}}\n"
	list := func(first, second string) *migrate.Plan {
		text := "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: nvidia.com/v1, kind: ClusterPolicy, spec: {driver: {useNvidiaDriverCRD: true, version: 550.90.07, repository: nvcr.io/nvidia}}}\n"
		text += strings.NewReplacer("NAME", "one", "SELECTOR", first, "VERSION", "version: 580.95.05,").Replace(driver)
		text += strings.NewReplacer("NAME", "two", "SELECTOR", second, "VERSION", "").Replace(driver)
		return plan(decode(t, text), migrate.Options{})
	}
	p := list("pool: a", "pool: b")
	all, err := pools.Parse(p.Values)
	if err != nil || len(all) != 2 || all[0].Name != "driver-of-the-data-c" || all[1].Name != "driver-of-the-data-2" {
		t.Errorf("pools are %v, %v", all, err)
	}
	if !slices.ContainsFunc(p.Changed, func(d migrate.Difference) bool {
		return d.Path == "NVIDIADriver driver-of-the-data-centre-two version" && d.To == "the values of driver"
	}) {
		t.Errorf("changed are %v", p.Changed)
	}
	if p = list("pool: a", "pool: a, disk: ssd"); !slices.ContainsFunc(p.Refused, func(d migrate.Difference) bool { return d.Path == "pools" && strings.Contains(d.Why, "overlap") }) {
		t.Errorf("refused are %v", p.Refused)
	}
}

// TestReadRejectsOtherObjects names the object, because Kyverno and Outrigger have a ClusterPolicy too.
func TestReadRejectsOtherObjects(t *testing.T) {
	err := migrate.Read("x.yaml", []byte("apiVersion: kyverno.io/v1\nkind: ClusterPolicy"), &migrate.Source{})
	if err == nil || !strings.Contains(err.Error(), "ClusterPolicy of kyverno.io/v1") {
		t.Error(err)
	}
}
