package charts

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts/chartstest"
)

// installed is how the tests install the umbrella chart.
func installed(values map[string]any) Release {
	return Release{Name: "gpu-operator", Namespace: "gpu-operator", Kubernetes: "1.36.0", Values: chartstest.WithRegistry(values)}
}

// valuesFrom parses values in YAML.
func valuesFrom(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestStagesComeInTheOrderOfTheirNeeds(t *testing.T) {
	stages, err := Stages(installed(valuesFrom(t, "{draPlugin: {enabled: true}, global: {config: {map: {a: 'version: v1'}}}}")))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stages {
		for _, need := range s.Needs {
			if !slices.Contains(names, need) {
				t.Errorf("%s needs %s, which is not before it: %v", s.Name, need, names)
			}
		}
		if kinds := strings.Count("\n"+s.Manifest, "\nkind: "); kinds == 0 || !strings.HasPrefix(s.Manifest, "---\n") {
			t.Errorf("%s has %d objects:\n%s", s.Name, kinds, s.Manifest)
		}
		names = append(names, s.Name)
	}
	for name, key := range map[string]string{"outrigger": "", "container-toolkit": "toolkit", "device-plugin": "devicePlugin", "dra-plugin": "draPlugin", "feature-discovery": "gfd", "dcgm-exporter": "dcgmExporter"} {
		at := slices.Index(names, name)
		if at < 0 {
			t.Fatalf("no stage %s: %v", name, names)
		}
		if stages[at].Key != key {
			t.Errorf("the key of %s is %q, want %q", name, stages[at].Key, key)
		}
	}
	// It labels the nodes on which the other agents run.
	if names[1] != "feature-discovery" {
		t.Errorf("the first agent is %s, want feature-discovery", names[1])
	}
	if names[0] != "outrigger" || !strings.Contains(stages[0].Manifest, "kind: ConfigMap") {
		t.Errorf("the first stage is %s, want outrigger with the ConfigMap:\n%s", names[0], stages[0].Manifest)
	}
}

func TestStagesLacksWhatTheValuesDisable(t *testing.T) {
	stages, err := Stages(installed(valuesFrom(t, "{toolkit: {enabled: false}}")))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		if s.Name == "container-toolkit" || slices.Contains(s.Needs, "container-toolkit") {
			t.Errorf("%s is a stage, and needs %v", s.Name, s.Needs)
		}
	}
}

// TestBothModesInstallTheSame compares what the orchestrator applies with what Helm installs.
func TestBothModesInstallTheSame(t *testing.T) {
	text, err := os.ReadFile("testdata/outrigger/shared.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := valuesFrom(t, string(text))
	values["orchestrator"] = map[string]any{"enabled": false}
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	helm, err := Render(c, installed(values))
	if err != nil {
		t.Fatal(err)
	}
	delete(values, "orchestrator")
	stages, err := Stages(installed(values))
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, s := range stages {
		all += s.Manifest
	}
	want := documents(strings.ReplaceAll(helm, "managed-by: Helm", "managed-by: outrigger"))
	if got := documents(all); !slices.Equal(got, want) {
		t.Errorf("%d objects differ from the %d of Helm:\n%s", len(got), len(want), strings.Join(got, "\n---\n"))
	}
}

// documents returns the objects of a manifest, sorted.
func documents(manifest string) []string {
	found := separator.Split(manifest, -1)
	for i := range found {
		found[i] = strings.TrimSpace(found[i])
	}
	slices.Sort(found)
	return slices.DeleteFunc(found, func(text string) bool { return text == "" })
}

func TestStagesNamesEveryMistakeInTheValues(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"an unknown key of an agent, near a known one": {
			"{devicePlugin: {toleration: []}}", "devicePlugin.toleration: unknown key; write devicePlugin.tolerations, or remove it",
		},
		"an unknown key near none": {"{gfd: {colour: red}}", "gfd.colour: unknown key; remove it"},
		"an unknown key at the top, in another case": {
			"{deviceplugin: {}}", "deviceplugin: unknown key; write devicePlugin, or remove it",
		},
		"a key of an agent that is off": {"{draPlugin: {enabld: true}}", "draPlugin.enabld: unknown key; write draPlugin.enabled, or remove it"},
		"a value of the wrong type, in a list": {
			"{devicePlugin: {env: [{name: 1}]}}", "devicePlugin.env[0].name: got number, want string; correct it, or remove it",
		},
		"several mistakes": {
			"{gfd: {publish: stdout}, devicePlugin: {mps: {port: 70000, prot: 1}}}",
			"devicePlugin.mps.port: maximum: got 70,000, want 65,535; correct it, or remove it\ndevicePlugin.mps.prot: unknown key; write devicePlugin.mps.port, or remove it\n" +
				"gfd.publish: value must be one of 'node', 'nfd-file', 'nodefeature', null; correct it, or remove it",
		},
		"several agents that this release lacks": {
			"{dcgm: {enabled: true}, nodeStatusExporter: {enabled: true, image: validator}}",
			"dcgm.enabled: this release has no DCGM, and dcgmExporter needs none; set it to false\n" +
				"nodeStatusExporter.enabled: the agents serve /metrics themselves; set it to false",
		},
		"a config that agents share": {
			"{devicePlugin: {config: {create: true, name: a, data: {x: 'flags: ['}}}}",
			"devicePlugin.config.map.x: invalid config: error converting YAML to JSON: yaml: line 1: did not find expected node content; correct the YAML",
		},
		"an agent that the cluster is too old for": {
			"{draPlugin: {enabled: true}}", "draPlugin.enabled: it needs Kubernetes >=1.34.0-0, and the cluster has v1.33.0; set it to false",
		},
		"what a template rejects": {
			"{devicePlugin: {config: {default: a}}}",
			"devicePlugin.config.default: \"a\" names no config, because the chart has no configs; set devicePlugin.config.map or devicePlugin.config.name, or remove it",
		},
		"what the notes of an agent need": {
			"{driver: {enabled: true, version: 580.95.05-ubuntu22.04}}", "driver.repository: the image needs a repository, which has no default here; set driver.repository to nvcr.io/nvidia",
		},
		"what NVIDIA's operator has and this release lacks": {
			"{driver: {enabled: true, repository: r.example.org, version: 580.95.05-debian12, nvidiaDriverCRD: {enabled: true}}}",
			"driver.nvidiaDriverCRD.enabled: this release has no objects of the kind NVIDIADriver; set it to false, and use pools of the chart outrigger where nodes need different drivers",
		},
		"a value that has to be off": {
			"{hostPaths: {rootFS: /host}, driver: {enabled: true, secretEnv: keys}}",
			"driver.secretEnv: the pods take no variables from a whole Secret; remove it, and name the variables in env\n" +
				"hostPaths.rootFS: \"/host\" is not the root folder of the host; set hostPaths.rootFS to /",
		},
		"a value that may be null": {"{mig: {strategy: some}}", "mig.strategy: value must be one of 'none', 'single', 'mixed', null; correct it, or remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			r := installed(valuesFrom(t, c.values))
			r.Kubernetes = "1.33.0"
			_, err := Stages(r)
			if err == nil || err.Error() != c.want {
				t.Errorf("error is\n%v\nwant\n%s", err, c.want)
			}
		})
	}
}

func TestStagesKeepsTheCallersValues(t *testing.T) {
	values := valuesFrom(t, "{orchestrator: {enabled: true}, devicePlugin: {affinity: null}}")
	if _, err := Stages(installed(values)); err != nil {
		t.Fatal(err)
	}
	if got, _ := yaml.Marshal(values); string(got) != "devicePlugin:\n  affinity: null\norchestrator:\n  enabled: true\n" {
		t.Errorf("the values are now\n%s", got)
	}
}

func TestSortedNamesACycle(t *testing.T) {
	order, err := sorted(map[string][]string{"c": {"b", "absent"}, "b": {"a"}, "a": nil, "d": nil})
	if want := []string{"a", "d", "b", "c"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("the order is %v, %v, want %v", order, err, want)
	}
	_, err = sorted(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}})
	if want := errors.New("annotation outrigger.dev/needs: the charts need each other: b needs c needs b"); err == nil || err.Error() != want.Error() {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// TestReadyChainFollowsWhatIsInstalled finds the links that feature discovery requires.
func TestReadyChainFollowsWhatIsInstalled(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                             "driver,mig,toolkit,plugin",
		"{toolkit: {enabled: false}}":    "driver,mig,plugin",
		"{migManager: {enabled: false}}": "driver,toolkit,plugin",
		"{toolkit: {enabled: false}, devicePlugin: {enabled: false}}":      "driver,mig",
		"{validator: {driver: {nodes: all}}}":                              "driver,mig,toolkit,plugin,cuda",
		"{validator: {driver: {nodes: all, report: false}}}":               "driver,mig,toolkit,plugin",
		"{validator: {enabled: false, driver: {nodes: all}}}":              "driver,mig,toolkit,plugin",
		"{gfd: {readyChain: [driver]}, validator: {driver: {nodes: all}}}": "driver",
		"{gfd: {readyChain: []}, validator: {driver: {nodes: '1'}}}":       "",
	} {
		stages, err := Stages(installed(valuesFrom(t, values)))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range stages {
			if _, after, ok := strings.Cut(s.Manifest, "- name: READY_CHAIN\n"); ok {
				line, _, _ := strings.Cut(after, "\n")
				got = strings.TrimPrefix(strings.TrimSpace(line), "value: ")
			}
		}
		if got != want {
			t.Errorf("%s: the chain is %q, want %q", values, got, want)
		}
	}
}
