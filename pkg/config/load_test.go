package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
)

// change is the defaults, but for what f does.
func change(f func(*config.Config)) config.Config {
	c := config.Default()
	f(&c)
	return c
}

func TestFullFile(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	assert.NilError(t, err)
	got, err := config.Load(config.Explicit{}, data, "full.yaml")
	assert.NilError(t, err)
	want := config.Config{
		MIGStrategy: config.MIGStrategyMixed,
		Sharing: config.Sharing{
			Strategy: config.SharingTimeSlicing, FailRequestsGreaterThanOne: true,
			Shares: []config.Share{
				{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu-8", Replicas: 8, Devices: config.Selection{Refs: []config.Ref{"0", "1", "GPU-5d0e1b9a-0000-4000-8000-00000000000a"}}},
				{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu.shared", Replicas: 1, Devices: config.Selection{Count: 2}},
				{Name: "nvidia.com/a100", Rename: "nvidia.com/a100", Replicas: 4},
				{Name: "nvidia.com/mig-3g.20gb", Rename: "nvidia.com/mig-3g.20gb.shared", Replicas: 2, Devices: config.Selection{Refs: []config.Ref{
					"0:1", "MIG-5d0e1b9a-0000-4000-8000-00000000000b", "MIG-GPU-5d0e1b9a-0000-4000-8000-00000000000c/3/0",
				}}},
				{Name: "nvidia.com/small", Rename: "nvidia.com/small.shared", Replicas: 3},
			},
		},
		Resources: config.Resources{
			GPUs: []config.Pattern{{Pattern: "NVIDIA A100*", Name: "nvidia.com/a100"}, {Pattern: "80GB", Name: "nvidia.com/big"}},
			MIG:  []config.Pattern{{Pattern: "1g.*", Name: "nvidia.com/small"}},
		},
		Filter:              config.Filter{Include: []string{"NVIDIA A100*", "0"}, Exclude: []string{"GPU-5d0e*", "0000:17:*"}},
		Policy:              config.PolicyPacked,
		GDS:                 true,
		MOFED:               true,
		GDRCopy:             true,
		IMEX:                config.IMEX{Channels: []int{0}, Required: true},
		MPSRoot:             "/run/mps",
		ListStrategies:      []config.ListStrategy{config.ListCDIAnnotations, config.ListEnvvar},
		IDStrategy:          config.IDIndex,
		CDIAnnotationPrefix: "nvidia.cdi.k8s.io/",
		PassDeviceSpecs:     true,
		KubeletSocket:       "/var/lib/kubelet/device-plugins/kubelet.sock",
		Register:            true,
		FailOnInitError:     true,
		CDIRoot:             "/var/run/cdi",
		HookPath:            "/usr/bin/nvidia-ctk",
		Discovery:           config.DiscoveryNVML,
		Driver:              config.Driver{Root: "/run/nvidia/driver", CtrRoot: "/driver", DevRoot: "/run/nvidia/driver"},
		Health:              config.Health{health.RowRemapPending: health.Warning, "xid-94": health.Failure},
		GFD: config.GFD{
			OneShot: true, NoTimestamp: true, OutputFile: "/features.d/gfd", MachineTypeFile: "/sys/class/dmi/id/board_name",
			Output: config.OutputNodeFeature,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestPrecedence(t *testing.T) {
	for name, tc := range map[string]struct {
		flags config.Explicit
		file  string
		want  config.Config
	}{
		"nothing is set":        {want: config.Default()},
		"the file has no words": {file: "version: \"\"\nflags: null\n", want: config.Default()},
		"the file goes before the defaults": {
			file: "flags: {migStrategy: single, plugin: {deviceListStrategy: \"cdi-cri, envvar\"}}",
			want: change(func(c *config.Config) {
				c.MIGStrategy = config.MIGStrategySingle
				c.ListStrategies = []config.ListStrategy{config.ListCDICRI, config.ListEnvvar}
			}),
		},
		"the strategy for a file that sets none": {
			flags: config.Explicit{"default-device-list-strategy": {"cdi-cri"}},
			file:  "flags: {migStrategy: single}",
			want: change(func(c *config.Config) {
				c.MIGStrategy, c.ListStrategies = config.MIGStrategySingle, []config.ListStrategy{config.ListCDICRI}
			}),
		},
		"the strategy of the file goes before the default that a flag sets": {
			flags: config.Explicit{"default-device-list-strategy": {"cdi-cri"}},
			file:  "flags: {plugin: {deviceListStrategy: volume-mounts}}",
			want:  change(func(c *config.Config) { c.ListStrategies = []config.ListStrategy{config.ListVolumeMounts} }),
		},
		"the strategy of a flag goes before the default that another flag sets": {
			flags: config.Explicit{"default-device-list-strategy": {"cdi-cri"}, "device-list-strategy": {"envvar"}},
			want:  config.Default(),
		},
		"flags go before the file, also with the value of the default": {
			flags: config.Explicit{
				"mig-strategy": {"none"}, "fail-on-init-error": {"false"}, "pass-device-specs": {"false"},
				"device-list-strategy": {"envvar"}, "imex-channel-ids": {}, "shared-devices-allocation-policy": {"distributed"},
				"dev-root": {""}, "driver-root": {"/"},
			},
			file: "flags: {migStrategy: mixed, failOnInitError: true, nvidiaDriverRoot: /d, nvidiaDevRoot: /d, plugin: {passDeviceSpecs: true, deviceListStrategy: cdi-cri, sharedDevicesAllocationPolicy: spread}}\nimex: {channelIDs: [0]}",
			want: config.Default(),
		},
		"what only flags can set": {
			flags: config.Explicit{
				"kubelet-socket": {"/k/kubelet.sock"}, "cdi-root": {"/cdi/"}, "cdi-feature-flags": {"disable-ipc-discoverer"},
				"cdi-disable-hooks": {"all"}, "disable-healthchecks": {"79"}, "enable-healthchecks": {"13"},
			},
			want: change(func(c *config.Config) {
				c.KubeletSocket, c.CDIRoot = "/k/kubelet.sock", "/cdi"
				c.CDIFeatureFlags, c.CDIDisableHooks = []string{"disable-ipc-discoverer"}, []string{"all"}
				c.HealthChecks = config.HealthChecks{Disable: "79", Enable: "13"}
			}),
		},
		"severities of faults": {
			file: "health: {row-remap-pending: warn, xid-94: fail, xid-support: ignore}",
			want: change(func(c *config.Config) {
				c.Health = config.Health{health.RowRemapPending: health.Warning, "xid-94": health.Failure, health.XIDSupport: health.Ignored}
			}),
		},
		"a section of severities without any": {file: "health: {}", want: config.Default()},
		"an empty socket serves without registering": {
			flags: config.Explicit{"kubelet-socket": {""}},
			want:  change(func(c *config.Config) { c.Register = false }),
		},
		"MPS rejects more than one replica": {
			file: "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
			want: change(func(c *config.Config) {
				c.Sharing = config.Sharing{
					Strategy: config.SharingMPS, FailRequestsGreaterThanOne: true,
					Shares: []config.Share{{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu", Replicas: 2}},
				}
			}),
		},
		"unless the config allows it": {
			file: "sharing: {timeSlicing: null, mps: {failRequestsGreaterThanOne: false, resources: [{name: gpu, rename: \"\", replicas: 2}]}}",
			want: change(func(c *config.Config) {
				c.Sharing = config.Sharing{
					Strategy: config.SharingMPS,
					Shares:   []config.Share{{Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu", Replicas: 2}},
				}
			}),
		},
		"resource-config spreads": {
			flags: config.Explicit{"resource-config": {"gpu:shared:2"}},
			want: change(func(c *config.Config) {
				c.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{{Name: "nvidia.com/gpu", Rename: "nvidia.com/shared", Replicas: 2}}}
				c.Policy = config.PolicySpread
			}),
		},
		"resource-config with a policy of the file": {
			flags: config.Explicit{"resource-config": {"big:small:2"}},
			file:  "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\nresources: {gpus: [{pattern: '*', name: big}]}",
			want: change(func(c *config.Config) {
				c.Resources.GPUs = []config.Pattern{{Pattern: "*", Name: "nvidia.com/big"}}
				c.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{{Name: "nvidia.com/big", Rename: "nvidia.com/small", Replicas: 2}}}
				c.Policy = config.PolicyPacked
			}),
		},
		"resource-config that is empty": {flags: config.Explicit{"resource-config": {" "}}, want: config.Default()},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(tc.flags, []byte(tc.file), "c.yaml")
			assert.NilError(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		flags config.Explicit
		file  string
		want  []string
	}{
		"all errors at once, with those of the file": {
			flags: config.Explicit{
				"mig-strategy": {"some"}, "device-list-strategy": {"cdi", "envvar", "env"}, "default-device-list-strategy": {"env"},
				"device-id-strategy": {"minor"}, "shared-devices-allocation-policy": {""}, "device-discovery-strategy": {"vfio"},
				"cdi-feature-flags": {"none"}, "cdi-disable-hooks": {"hook"}, "imex-channel-ids": {"0", "1"}, "cdi-root": {"cdi"},
				"kubelet-socket": {"kubelet.sock"}, "nvidia-cdi-hook-path": {"ctk"}, "mps-root": {"mps"}, "resource-config": {"gpu:a:0"},
			},
			file: "version: v2",
			want: []string{
				`flag --default-device-list-strategy: invalid value "env": must be envvar, volume-mounts, cdi-annotations or cdi-cri`,
				`flag --mig-strategy: invalid value "some": must be none, single or mixed`,
				`flag --device-discovery-strategy: invalid value "vfio": must be auto or nvml`,
				`flag --shared-devices-allocation-policy: invalid value "": must be distributed, packed or spread`,
				`flag --mps-root: invalid value "mps": must be an absolute path`,
				`flag --kubelet-socket: invalid value "kubelet.sock": must be an absolute path`,
				`flag --device-list-strategy: invalid value "cdi": must be envvar, volume-mounts, cdi-annotations or cdi-cri`,
				`flag --device-list-strategy: invalid value "env": must be envvar, volume-mounts, cdi-annotations or cdi-cri`,
				`flag --device-id-strategy: invalid value "minor": must be uuid or index`,
				`flag --imex-channel-ids: invalid value "1": must be empty or 0, the only channel that containers of a node can share`,
				`flag --cdi-root: invalid value "cdi": must be an absolute path`,
				`flag --nvidia-cdi-hook-path: invalid value "ctk": must be an absolute path`,
				`flag --cdi-feature-flags: invalid value "none": must be enable-explicit-driver-libraries, disable-nvsandboxutils, enable-coherent-annotations, disable-multiple-csv-devices, no-additional-gids-for-device-nodes or disable-ipc-discoverer`,
				`flag --cdi-disable-hooks: invalid value "hook": must be update-application-profile, chmod, create-symlinks, disable-device-node-modification, enable-cuda-compat, update-ldcache or all`,
				`c.yaml:1: version: invalid value "v2": must be v1`,
				`flag --resource-config: entry 1, "gpu:a:0": invalid replicas "0": must be an integer of at least 1, or -1 for one replica for each 1000 MiB of memory`,
			},
		},
		"text that would break files": {
			flags: config.Explicit{
				"nvidia-cdi-hook-path": {"/usr/bin/nvidia-ctk\nhook"}, "cdi-annotation-prefix": {"cdi.k8s.io/\nx"}, "resource-config": {",,,"},
			},
			file: "version: v1\nflags: {plugin: {cdiAnnotationPrefix: 'a b', nvidiaCTKPath: \"/x\\u0000y\"}}",
			want: []string{
				`flag --nvidia-cdi-hook-path: invalid value "/usr/bin/nvidia-ctk\nhook": must be an absolute path without control characters`,
				`flag --cdi-annotation-prefix: invalid value "cdi.k8s.io/\nx": must be a prefix like cdi.k8s.io/, without spaces and control characters`,
				`c.yaml:2: flags.plugin.nvidiaCTKPath: invalid value "/x\x00y": must be an absolute path without control characters`,
				`c.yaml:2: flags.plugin.cdiAnnotationPrefix: invalid value "a b": must be a prefix like cdi.k8s.io/, without spaces and control characters`,
				`flag --resource-config: ",,," has no entry: must be empty or a list of <original>[:<new>[:<replicas>]], like gpu:sharedgpu:4`,
			},
		},
		"Tegra": {
			flags: config.Explicit{"device-discovery-strategy": {"tegra"}},
			want:  []string{`flag --device-discovery-strategy: invalid value "tegra": must be auto or nvml: the integrated GPUs of Tegra have no NVML, through which GPUs are discovered`},
		},
		"values that do not go together": {
			flags: config.Explicit{
				"device-list-strategy": {"cdi-annotations"}, "cdi-annotation-prefix": {""}, "cdi-root": {""}, "mps-root": {""},
			},
			file: "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}",
			want: []string{
				`flag --cdi-annotation-prefix: invalid value "": must be a prefix like cdi.k8s.io/ with device-list-strategy cdi-annotations`,
				`flag --cdi-root: invalid value "": must be an absolute path with a CDI device-list-strategy`,
				`flag --mps-root: invalid value "": must be an absolute path with sharing.mps: the folder on the host for the pipes of its daemons`,
			},
		},
		"two ways to configure sharing": {
			flags: config.Explicit{"resource-config": {"gpu:a:2"}},
			file:  "version: v1\nsharing:\n  timeSlicing:\n    resources: [{name: gpu, replicas: 2}]\n",
			want:  []string{`c.yaml:3: sharing.timeSlicing: flag --resource-config is set too, and both configure sharing: remove one of them`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(tc.flags, []byte(tc.file), "c.yaml")
			wantErrors(t, tc.want, err)
			if diff := cmp.Diff(config.Config{}, c); diff != "" {
				t.Errorf("a config beside the error:\n%s", diff)
			}
		})
	}
}

func wantErrors(t *testing.T, want []string, err error) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestStrategyKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		lists        []config.ListStrategy
		cdi, onlyCDI bool
	}{
		"envvar":         {lists: []config.ListStrategy{config.ListEnvvar}},
		"volume-mounts":  {lists: []config.ListStrategy{config.ListVolumeMounts}},
		"cdi":            {lists: []config.ListStrategy{config.ListCDICRI, config.ListCDIAnnotations}, cdi: true, onlyCDI: true},
		"envvar and cdi": {lists: []config.ListStrategy{config.ListEnvvar, config.ListCDICRI}, cdi: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Config{ListStrategies: tc.lists}
			if c.CDI() != tc.cdi || c.OnlyCDI() != tc.onlyCDI {
				t.Errorf("CDI, OnlyCDI = %v, %v, want %v, %v", c.CDI(), c.OnlyCDI(), tc.cdi, tc.onlyCDI)
			}
		})
	}
}

func TestNeedsRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		flags config.Explicit
		file  string
		want  []string
	}{
		"nothing has changed": {},
		"what can be applied to what runs": {
			file: "flags: {migStrategy: mixed, gdsEnabled: true, plugin: {deviceListStrategy: cdi-cri, passDeviceSpecs: true, nvidiaCTKPath: /x, sharedDevicesAllocationPolicy: packed}}\n" +
				"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}\ndevices: {exclude: [0]}",
		},
		"what cannot": {
			flags: config.Explicit{"kubelet-socket": {""}, "cdi-root": {"/cdi"}},
			file:  "flags: {nvidiaDriverRoot: /d, nvidiaDevRoot: /d, mpsRoot: /m, plugin: {containerDriverRoot: /c}}",
			want:  []string{"driver-root", "driver-root-ctr-path", "dev-root", "mps-root", "kubelet-socket", "cdi-root"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(tc.flags, []byte(tc.file), "c.yaml")
			assert.NilError(t, err)
			if diff := cmp.Diff(tc.want, config.NeedsRestart(config.Default(), c)); diff != "" {
				t.Errorf("needs restart (-want +got):\n%s", diff)
			}
		})
	}
}
