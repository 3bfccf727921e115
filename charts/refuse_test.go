package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refusal is a file of values that a chart cannot honour, and what must be in
// the message.
type refusal struct {
	values string
	want   []string
}

// refuses renders chart with the values of each test.
func refuses(t *testing.T, chart string, tests map[string]refusal) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(tc.values), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := render(t, chart, "--values", file)
			if err == nil {
				t.Fatalf("these values were accepted:\n%s", tc.values)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in: %s", want, out)
				}
			}
		})
	}
}

// TestEveryChartRefusesWhatNoAgentCanHonour has the values of all charts.
func TestEveryChartRefusesWhatNoAgentCanHonour(t *testing.T) {
	for _, chart := range names(t) {
		t.Run(chart, func(t *testing.T) {
			refuses(t, chart, map[string]refusal{
				"an unknown value further down":  {"image: {name: x}", []string{"image", "name"}},
				"a driver root that is relative": {"nvidiaDriverRoot: run/nvidia", []string{"nvidiaDriverRoot"}},
				"a port that is none":            {"metrics: {port: 70000}", []string{"metrics/port", "65,535"}},
				"device nodes that the agent cannot see": {
					"nvidiaDriverRoot: /run/nvidia/driver\nnvidiaDevRoot: /opt/dev",
					[]string{"nvidiaDevRoot", `"/opt/dev"`, "must be / or in nvidiaDriverRoot"},
				},
				"a service with nothing to serve": {
					"metrics: {port: 0, service: {enabled: true}}",
					[]string{"metrics.service.enabled", "metrics.port is 0", "set a port, or disable the service"},
				},
			})
		})
	}
}

// TestChartsRefuseConfigsThatCannotWork has the charts with config files.
func TestChartsRefuseConfigsThatCannotWork(t *testing.T) {
	for _, chart := range []string{"device-plugin", "feature-discovery"} {
		t.Run(chart, func(t *testing.T) {
			refuses(t, chart, map[string]refusal{
				"a resource config with a word for a number": {
					"resourceConfig: gpu:shared:4,mig-3g.20gb:small:many",
					[]string{`resourceConfig: entry "mig-3g.20gb:small:many"`, "<original>[:<new>[:<replicas>]]", "like gpu:sharedgpu:4"},
				},
				"a resource config with a name that is empty": {
					"resourceConfig: gpu::4",
					[]string{`entry "gpu::4"`, "like gpu:sharedgpu:4"},
				},
				"a resource config that offers nothing": {
					"resourceConfig: gpu:gpu:0",
					[]string{`"gpu:gpu:0"`, "replicas from 1 upwards, or -1"},
				},
				"configs from two places": {
					"config: {name: mine, map: {default: 'version: v1'}}",
					[]string{"config.name and config.map are both set", `"mine"`, "remove one of them"},
				},
				"a default that is not there": {
					"config: {default: c, map: {b: 'version: v1', a: 'version: v1'}}",
					[]string{`config.default: "c" is not in config.map: there is a, b`},
				},
				"a default of nothing": {
					"config: {default: c}",
					[]string{"config.default", "set config.map or config.name"},
				},
				"a name that no label can have": {
					"config: {map: {-a: 'version: v1'}}",
					[]string{`config.map: "-a"`, "the value of a label"},
				},
				"a config that is no YAML": {
					"config: {map: {a: 'flags: ['}}",
					[]string{"config.map.a: not the YAML of a config"},
				},
				"a config of one word": {
					"config: {map: {a: 'default'}}",
					[]string{"config.map.a: not the YAML of a config"},
				},
				"a config with another driver root": {
					"config: {map: {a: 'flags: {nvidiaDriverRoot: /run/nvidia/driver}'}}",
					[]string{`config.map.a: flags.nvidiaDriverRoot is "/run/nvidia/driver", but "/" is what the chart sets: set nvidiaDriverRoot of the chart instead`},
				},
				"sharing in two places": {
					"resourceConfig: gpu:gpu:4\nconfig: {map: {a: 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}'}}",
					[]string{"config.map.a", "resourceConfig is set too", "remove one of them"},
				},
			})
		})
	}
}

func TestDevicePluginRefusesValuesOfTheWrongForm(t *testing.T) {
	refuses(t, "device-plugin", map[string]refusal{
		"an unknown value":                 {"devicelistStrategy: cdi-cri", []string{"devicelistStrategy"}},
		"another agent of NVIDIA's chart":  {"gfd: {enabled: true}", []string{"gfd"}},
		"an unknown strategy":              {"deviceListStrategy: hook", []string{"deviceListStrategy", "cdi-cri", "volume-mounts"}},
		"an unknown strategy among others": {"deviceListStrategy: envvar,hook", []string{"deviceListStrategy"}},
		"no strategy":                      {"deviceListStrategy: []", []string{"deviceListStrategy"}},
		"an unknown MIG strategy":          {"migStrategy: all", []string{"migStrategy", "none", "single", "mixed"}},
		"an unknown policy":                {"sharedDevicesAllocationPolicy: random", []string{"sharedDevicesAllocationPolicy", "distributed", "packed", "spread"}},
		"an unknown fallback":              {"config: {fallbackStrategies: [first]}", []string{"fallbackStrategies", "named", "single", "empty"}},
		"devices without NVML":             {"deviceDiscoveryStrategy: tegra", []string{"deviceDiscoveryStrategy", "auto", "nvml"}},
		"an IMEX channel but 0":            {"imex: {channelIDs: [7]}", []string{"imex/channelIDs", "must be 0"}},
		"a word for a yes or no":           {"failOnInitError: maybe", []string{"failOnInitError"}},
		"a number for a yes or no":         {"gdsEnabled: 1", []string{"gdsEnabled", "boolean"}},
		"a hook path that is relative":     {"cdi: {nvidiaHookPath: nvidia-ctk}", []string{"cdi/nvidiaHookPath"}},
		"the host's root for MPS":          {"mps: {root: /}", []string{"mps/root"}},
		"a config that is not text":        {"config: {map: {default: {version: v1}}}", []string{"config/map/default", "string"}},
	})
}

func TestDevicePluginRefusesWhatItCannotHonour(t *testing.T) {
	refuses(t, "device-plugin", map[string]refusal{
		"the API of old DaemonSets": {
			"legacyDaemonsetAPI: true",
			[]string{"legacyDaemonsetAPI", "Kubernetes 1.16", "remove the value"},
		},
		"a program of the host that a config chooses": {
			"config: {map: {a: 'flags: {plugin: {nvidiaCTKPath: /tmp/mine}}'}}",
			[]string{"config.map.a", "flags.plugin.nvidiaCTKPath", "set cdi.nvidiaHookPath of the chart instead"},
		},
		"nothing to run": {
			"devicePlugin: {enabled: false}",
			[]string{"devicePlugin.enabled", "nothing would run", "set mps.enabled"},
		},
	})
}

func TestDevicePluginRefusesConfigsThatCannotWork(t *testing.T) {
	refuses(t, "device-plugin", map[string]refusal{
		"a config that says what the chart says otherwise": {
			"config: {map: {a: 'flags: {plugin: {deviceListStrategy: envvar}}'}}",
			[]string{`config.map.a: flags.plugin.deviceListStrategy is "envvar"`, "set deviceListStrategy to null"},
		},
		"a config with another folder for MPS": {
			"config: {map: {a: 'flags: {mpsRoot: /mps}'}}",
			[]string{`config.map.a: flags.mpsRoot is "/mps"`, "set mps.root of the chart"},
		},
	})
}

func TestDRAPluginRefusesWhatItCannotHonour(t *testing.T) {
	refuses(t, "dra-plugin", map[string]refusal{
		"an unknown value":                      {"deviceListStrategy: cdi-cri", []string{"deviceListStrategy"}},
		"a device that is a number":             {"devices: {exclude: [0]}", []string{"devices/exclude/0", "string"}},
		"an extended resource without a domain": {"deviceClasses: {extendedResourceName: gpu}", []string{"deviceClasses.extendedResourceName", "like nvidia.com/gpu", "or empty"}},
		"two pods of a node at once":            {"updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}", []string{"maxSurge", "use maxUnavailable"}},
	})
}

func TestFeatureDiscoveryRefusesValuesOfTheWrongForm(t *testing.T) {
	refuses(t, "feature-discovery", map[string]refusal{
		"an unknown value":                  {"gfd: {enabled: true}", []string{"gfd"}},
		"an unknown value of a part":        {"presence: {enable: true}", []string{"presence", "enable"}},
		"no output":                         {"publish: null", []string{"publish"}},
		"a policy that is there or not":     {"admissionPolicy: {create: null}", []string{"admissionPolicy", "create"}},
		"an output that needs no DaemonSet": {"publish: stdout", []string{"publish", "node", "nfd-file", "nodefeature"}},
		"a file in the root of the host":    {"outputFile: /gfd", []string{"outputFile"}},
		"an unknown link":                   {"readyChain: [driver, network]", []string{"readyChain/1", "driver", "toolkit", "plugin", "cuda"}},
		"a link that is there twice":        {"readyChain: [driver, driver]", []string{"readyChain"}},
		"a taint without an effect":         {"startupTaint: outrigger.dev/gpu-not-ready", []string{"startupTaint"}},
		"a taint with a value":              {"startupTaint: a=b:NoSchedule", []string{"startupTaint"}},
		"an unknown MIG strategy":           {"migStrategy: all", []string{"migStrategy", "none", "single", "mixed"}},
		"a number for a time":               {"sleepInterval: 60", []string{"sleepInterval"}},
		"a time without a unit":             {"sleepInterval: '60'", []string{"sleepInterval"}},
		"a relative path":                   {"presence: {osRelease: etc/os-release}", []string{"presence/osRelease"}},
		"a port of a part that is none":     {"presence: {port: 0}", []string{"presence/port"}},
	})
}

func TestFeatureDiscoveryRefusesWhatItCannotHonour(t *testing.T) {
	refuses(t, "feature-discovery", map[string]refusal{
		"one account for both parts": {
			"serviceAccount: {name: gpus}\npresence: {serviceAccount: {name: gpus}}",
			[]string{"presence.serviceAccount.name", `"gpus"`, "name another one"},
		},
		"a config with another output": {
			"config: {map: {a: 'flags: {useNodeFeatureAPI: true}'}}",
			[]string{"config.map.a: flags.useNodeFeatureAPI is true", "set publish of the chart"},
		},
		"a config with another file": {
			"publish: nfd-file\nconfig: {map: {a: 'flags: {gfd: {outputFile: /tmp/gfd}}'}}",
			[]string{`config.map.a: flags.gfd.outputFile is "/tmp/gfd"`, "set outputFile of the chart"},
		},
		"a config that makes a label of any file": {
			"config: {map: {a: 'flags: {gfd: {machineTypeFile: /driver-root/etc/shadow}}'}}",
			[]string{"config.map.a: flags.gfd.machineTypeFile", "set GFD_MACHINE_TYPE_FILE in env of the chart"},
		},
		"a config that ends the agent": {
			"config: {map: {a: 'flags: {gfd: {oneshot: true}}'}}",
			[]string{"config.map.a: flags.gfd.oneshot is true", "started again", "remove it"},
		},
	})
}

func TestFeatureDiscoveryNeedsAKubernetesWithItsPolicies(t *testing.T) {
	old := []string{"feature-discovery", "--kube-version", "1.29.9"}
	out, err := render(t, old...)
	if err == nil || !strings.Contains(out, "admissionPolicy.create") || !strings.Contains(out, "1.30") {
		t.Errorf("on Kubernetes 1.29: %v: %s", err, out)
	}
	for _, without := range []string{"admissionPolicy.create=false", "publish=nfd-file,readyChain=null,presence.enabled=false"} {
		out, err := render(t, append(old, "--set", without)...)
		if err != nil || strings.Contains(out, "ValidatingAdmissionPolicy") {
			t.Errorf("on Kubernetes 1.29 with %s: %v: %s", without, err, out)
		}
	}
}
