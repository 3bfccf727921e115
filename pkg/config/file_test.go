package config_test

import (
	"strings"
	"testing"

	"outrigger.dev/pkg/config"
)

const nameRule = "must be a name like nvidia.com/gpu or gpu: in the domain nvidia.com, at most 63 characters in total, with lower-case letters, digits, - and . after the domain"

const classRule = `use xid-N for the XID N, or one of row-remap-failed, uncorrected-ecc, row-remap-pending, page-retirement-pending, ` +
	`fabric-failed, fabric-joining, recovery-reset, recovery-reboot, recovery-drain-p2p, recovery-drain-and-reset, recovery-imex-domain, ` +
	`xid-ignore, xid-restart-app, xid-update, xid-support, xid-reset, xid-reboot`

func TestBadFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"values of flags": {
			file: `flags:
  migStrategy: some
  failOnInitError: "yes"
  nvidiaDriverRoot: run
  nvidiaDevRoot: dev
  mpsRoot: mps
  deviceDiscoveryStrategy: tegra
  passDeviceSpecs: true
  plugin:
    deviceListStrategy: envvar, cdi
    deviceIDStrategy: Index
    containerDriverRoot: ""
    sharedDevicesAllocationPolicy: fair
  gfd:
    sleepIntervall: 60s
`,
			want: []string{
				`c.yaml:2: flags.migStrategy: invalid value "some": must be none, single or mixed`,
				`c.yaml:3: flags.failOnInitError: invalid value "yes": must be true or false`,
				`c.yaml:4: flags.nvidiaDriverRoot: invalid value "run": must be an absolute path`,
				`c.yaml:5: flags.nvidiaDevRoot: invalid value "dev": must be an absolute path`,
				`c.yaml:6: flags.mpsRoot: invalid value "mps": must be an absolute path`,
				`c.yaml:7: flags.deviceDiscoveryStrategy: invalid value "tegra": must be auto or nvml: the integrated GPUs of Tegra have no NVML, through which GPUs are discovered`,
				`c.yaml:8: flags.passDeviceSpecs: unknown key: must be one of nvidiaDriverRoot, plugin, nvidiaDevRoot, migStrategy, deviceDiscoveryStrategy, failOnInitError, mpsRoot, gdsEnabled, mofedEnabled, gdrcopyEnabled, gfd, useNodeFeatureAPI`,
				`c.yaml:10: flags.plugin.deviceListStrategy: invalid value "envvar, cdi": must be envvar, volume-mounts, cdi-annotations or cdi-cri`,
				`c.yaml:11: flags.plugin.deviceIDStrategy: invalid value "Index": must be uuid or index`,
				`c.yaml:12: flags.plugin.containerDriverRoot: invalid value "": must be an absolute path`,
				`c.yaml:13: flags.plugin.sharedDevicesAllocationPolicy: invalid value "fair": must be distributed, packed or spread`,
				`c.yaml:15: flags.gfd.sleepIntervall: unknown key: did you mean sleepInterval?`,
			},
		},
		"severities of faults": {
			file: "health:\n  row-remap-failed: bad\n  row-remap: warn\n  xid-x: fail\n  xid-79: []\n  lost: ignore\n",
			want: []string{
				`c.yaml:2: health.row-remap-failed: invalid value "bad": must be ignore, warn or fail`,
				`c.yaml:3: health.row-remap: unknown class "row-remap": ` + classRule,
				`c.yaml:4: health.xid-x: unknown class "xid-x": ` + classRule,
				`c.yaml:5: health.xid-79: invalid value (a list): must be a text`,
				`c.yaml:6: health.lost: unknown class "lost": ` + classRule,
			},
		},
		"list strategies": {
			file: "flags:\n  plugin:\n    deviceListStrategy:\n    - envvar\n    - cdi\n    - {}\n",
			want: []string{
				`c.yaml:5: flags.plugin.deviceListStrategy[1]: invalid value "cdi": must be envvar, volume-mounts, cdi-annotations or cdi-cri`,
				`c.yaml:6: flags.plugin.deviceListStrategy[2]: invalid value (a mapping): must be a text`,
			},
		},
		"a list strategy that is none": {
			file: "flags: {plugin: {deviceListStrategy: {}}}",
			want: []string{"c.yaml:1: flags.plugin.deviceListStrategy: invalid value (a mapping): must be a text"},
		},
		"the spelling that many use": {
			file: "resources: {migs: []}", want: []string{"c.yaml:1: resources.migs: unknown key: did you mean mig?"},
		},
		"patterns": {
			file: `resources:
  gpus:
  - {pattern: "A100", name: a100}
  - {pattern: "A100", name: Big}
  - {name: example.com/gpu}
  - {pattern: " ", name: }
  - {pattern: [], name: {}}
`,
			want: []string{
				`c.yaml:4: resources.gpus[1].pattern: the pattern "A100" is already in line 3, which takes precedence`,
				`c.yaml:4: resources.gpus[1].name: invalid value "Big": ` + nameRule,
				`c.yaml:5: resources.gpus[2].pattern: is missing: must be a text in which * stands for any text, like "NVIDIA A100*" or "1g.*"`,
				`c.yaml:5: resources.gpus[2].name: invalid value "example.com/gpu": ` + nameRule,
				`c.yaml:6: resources.gpus[3].pattern: invalid value " ": must be a text in which * stands for any text`,
				`c.yaml:6: resources.gpus[3].name: is missing: ` + nameRule,
				`c.yaml:7: resources.gpus[4].pattern: invalid value (a list): must be a text`,
				`c.yaml:7: resources.gpus[4].name: invalid value (a mapping): must be a text`,
			},
		},
		"two ways to share": {
			file: "sharing:\n  timeSlicing:\n    resources: [{name: gpu, replicas: 2}]\n  mps:\n    resources: [{name: gpu, replicas: 2}]\n",
			want: []string{"c.yaml:4: sharing.mps: sharing.timeSlicing is also set, in line 2, but a GPU has only one sharing strategy: remove one of them"},
		},
		"entries of sharing": {
			file: `resources: {gpus: [{pattern: L4, name: ` + strings.Repeat("a", 46) + `}]}
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {}
    - {name: gpu, replicas: 0}
    - {name: gpuu, replicas: 99999999999999999999}
    - {name: mig-3g.20gb, replicas: 1.5}
    - {name: mig-1g.5gb, rename: a_b, replicas: "2"}
    - {name: ` + strings.Repeat("a", 46) + `, replicas: 2}
`,
			want: []string{
				`c.yaml:6: sharing.timeSlicing.resources[0].name: is missing: ` + nameRule,
				`c.yaml:6: sharing.timeSlicing.resources[0].replicas: is missing: must be an integer of at least 1; 1 only renames the resource`,
				`c.yaml:7: sharing.timeSlicing.resources[1].replicas: invalid value "0": must be an integer of at least 1`,
				`c.yaml:8: sharing.timeSlicing.resources[2].replicas: invalid value "99999999999999999999": must be an integer of at least 1`,
				`c.yaml:9: sharing.timeSlicing.resources[3].replicas: invalid value "1.5": must be an integer of at least 1`,
				`c.yaml:10: sharing.timeSlicing.resources[4].rename: invalid value "a_b": ` + nameRule,
				`c.yaml:10: sharing.timeSlicing.resources[4].replicas: invalid value "2": must be an integer of at least 1`,
				`c.yaml:11: sharing.timeSlicing.resources[5].name: renameByDefault turns nvidia.com/` + strings.Repeat("a", 46) + ` into nvidia.com/` + strings.Repeat("a", 46) + `.shared, which is too long: set rename`,
			},
		},
		"devices": {
			file: `sharing:
  timeSlicing:
    resources:
    - {name: gpu, replicas: 2, devices: some}
    - {name: mig-1g.5gb, replicas: 2, devices: 0}
    - {name: mig-2g.10gb, replicas: 2, devices: []}
    - {name: mig-3g.20gb, replicas: 2, devices: [-1, 01, 0:1:2, GPU-1, [], gpu-5d0e1b9a-0000-4000-8000-00000000000a, MIG-GPU-5d0e1b9a-0000-4000-8000-00000000000c/3]}
    - {name: mig-7g.40gb, replicas: 2, devices: "2"}
`,
			want: func() []string {
				list := "c.yaml:7: sharing.timeSlicing.resources[3].devices"
				bad := ": must be an index like 0, an index of a MIG device like 0:1, GPU-<uuid>, MIG-<uuid> or MIG-GPU-<uuid>/<gpu instance>/<compute instance>"
				return []string{
					`c.yaml:4: sharing.timeSlicing.resources[0].devices: invalid value "some": must be all, a number of devices, or a list of devices`,
					`c.yaml:5: sharing.timeSlicing.resources[1].devices: invalid value "0": must be an integer from 1 to 2147483647`,
					`c.yaml:6: sharing.timeSlicing.resources[2].devices: the list is empty: must be all, a number of devices, or a list of devices`,
					list + `[0]: invalid value "-1"` + bad,
					list + `[1]: invalid value "01"` + bad,
					list + `[2]: invalid value "0:1:2"` + bad,
					list + `[3]: invalid value "GPU-1"` + bad,
					list + `[4]: invalid value (a list): must be a text`,
					list + `[5]: invalid value "gpu-5d0e1b9a-0000-4000-8000-00000000000a"` + bad,
					list + `[6]: invalid value "MIG-GPU-5d0e1b9a-0000-4000-8000-00000000000c/3"` + bad,
					`c.yaml:8: sharing.timeSlicing.resources[4].devices: invalid value "2": must be all, a number of devices, or a list of devices`,
				}
			}(),
		},
		"entries that get no device": {
			file: `sharing:
  timeSlicing:
    resources:
    - {name: gpu, replicas: 2, devices: [0, 1]}
    - {name: gpu, replicas: 4, devices: [1, 2, 2]}
    - {name: gpu, replicas: 3}
    - {name: nvidia.com/gpu, replicas: 5, devices: 1}
`,
			want: []string{
				"c.yaml:5: sharing.timeSlicing.resources[1].devices: the entry in line 4 already takes 1 of nvidia.com/gpu",
				"c.yaml:5: sharing.timeSlicing.resources[1].devices: the entry in line 5 already takes 2 of nvidia.com/gpu",
				"c.yaml:7: sharing.timeSlicing.resources[3].name: the entry in line 6 takes all devices of nvidia.com/gpu, so no device is left for this entry: select devices there, or remove one of the entries",
			},
		},
		"IMEX": {
			file: "imex: {channelIDs: [0, 1], required: 1}",
			want: []string{
				`c.yaml:1: imex.required: invalid value "1": must be true or false`,
				`c.yaml:1: imex.channelIDs[1]: invalid value "1": must be empty or 0, the only channel that containers of a node can share`,
			},
		},
		"the filter": {
			file: "devices:\n  include: 0\n  exclude: [\"\", {}]\n",
			want: []string{
				`c.yaml:2: devices.include: invalid value "0": must be a list`,
				`c.yaml:3: devices.exclude[0]: invalid value "": must be a device or a pattern like 0, GPU-<uuid>, 0000:17:* or "NVIDIA A100*"`,
				`c.yaml:3: devices.exclude[1]: invalid value (a mapping): must be a text`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Explicit{}, []byte(tc.file), "c.yaml")
			wantErrors(t, tc.want, err)
		})
	}
}
