package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config"
)

// sharing returns the shares of names with two replicas each.
func sharing(s config.SharingStrategy, names ...string) config.Sharing {
	out := config.Sharing{Strategy: s, FailRequestsGreaterThanOne: s == config.SharingMPS}
	for _, name := range names {
		out.Shares = append(out.Shares, config.Share{Name: name, Rename: name, Replicas: 2})
	}
	return out
}

// A file of 1 MiB must not fill the log.
func TestManyWarnings(t *testing.T) {
	var b strings.Builder
	b.WriteString("sharing:\n  timeSlicing:\n    resources:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "    - {name: none-%d, replicas: 2}\n", i)
	}
	c, err := config.Load(config.Explicit{}, []byte(b.String()), "c.yaml")
	if err != nil || len(c.Warnings) != 21 || c.Warnings[20] != "c.yaml: 980 more warnings" {
		t.Errorf("%d warnings, %v: %q", len(c.Warnings), err, c.Warnings[max(0, len(c.Warnings)-1):])
	}
}

// TestHarmless has configs that NVIDIA's programs accept and that do no harm.
func TestHarmless(t *testing.T) {
	const (
		unknown  = ", so the entry has no effect: devices are named nvidia.com/gpu, nvidia.com/mig-<profile> like nvidia.com/mig-3g.20gb, or as resources defines"
		tooMany  = "the kubelet accepts about 63000 devices in a list, so fewer replicas are advertised"
		nothing  = "it has no resources, so nothing is shared"
		tooShort = "which is too short, using 1m0s: write a time with a unit like 60s"
		empty    = "the list is empty and has no effect"
	)
	for name, tc := range map[string]struct {
		flags    config.Explicit
		file     string
		want     func(*config.Config)
		warnings []string
	}{
		"names that no device has": {
			file: "sharing:\n  timeSlicing:\n    resources:\n    - {name: gpuu, replicas: 2}\n    - {name: gpu, replicas: 2}\n",
			want: func(c *config.Config) {
				c.Sharing = sharing(config.SharingTimeSlicing, "nvidia.com/gpuu", "nvidia.com/gpu")
			},
			warnings: []string{"c.yaml:4: sharing.timeSlicing.resources[0].name: no device has the name nvidia.com/gpuu" + unknown},
		},
		"a name that no device has, in resource-config": {
			flags: config.Explicit{"resource-config": {"vgpu:vgpu:2"}},
			want: func(c *config.Config) {
				c.Sharing, c.Policy = sharing(config.SharingTimeSlicing, "nvidia.com/vgpu"), config.PolicySpread
			},
			warnings: []string{`flag --resource-config: entry 1, "vgpu:vgpu:2": no device has the name nvidia.com/vgpu` + unknown},
		},
		"MPS on MIG devices": {
			file: `resources:
  mig: [{pattern: "1g*", name: small}, {pattern: "2g*", name: both}]
  gpus: [{pattern: "L4", name: both}]
sharing:
  mps:
    resources:
    - {name: gpu, replicas: 2, devices: [0, "0:1"]}
    - {name: mig-1g.5gb, replicas: 2}
    - {name: small, replicas: 2}
    - {name: both, replicas: 2}
    - {name: mig-7g.40gb, rename: large, replicas: 1}
`,
			want: func(c *config.Config) {
				c.Resources = config.Resources{
					GPUs: []config.Pattern{{Pattern: "L4", Name: "nvidia.com/both"}},
					MIG:  []config.Pattern{{Pattern: "1g*", Name: "nvidia.com/small"}, {Pattern: "2g*", Name: "nvidia.com/both"}},
				}
				c.Sharing = sharing(config.SharingMPS, "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/small", "nvidia.com/both")
				c.Sharing.Shares[0].Devices.Refs = []config.Ref{"0", "0:1"}
				c.Sharing.Shares = append(c.Sharing.Shares, config.Share{Name: "nvidia.com/mig-7g.40gb", Rename: "nvidia.com/large", Replicas: 1})
			},
			warnings: []string{
				"c.yaml:7: sharing.mps.resources[0].devices: 0:1 is a MIG device, which MPS cannot share, so it is advertised once: use sharing.timeSlicing for it",
				"c.yaml:8: sharing.mps.resources[1].name: MPS cannot share MIG devices (nvidia.com/mig-1g.5gb), so each is advertised once: use sharing.timeSlicing for them",
				"c.yaml:9: sharing.mps.resources[2].name: MPS cannot share MIG devices (nvidia.com/small), so each is advertised once: use sharing.timeSlicing for them",
			},
		},
		"16384 replicas": {
			file: "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 16384}]}}",
			want: func(c *config.Config) {
				c.Sharing = sharing(config.SharingTimeSlicing, "nvidia.com/gpu")
				c.Sharing.Shares[0].Replicas = 16384
			},
		},
		"more replicas than any list holds": {
			file: "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 9223372036854775807}]}}",
			want: func(c *config.Config) {
				c.Sharing = sharing(config.SharingTimeSlicing, "nvidia.com/gpu")
				c.Sharing.Shares[0].Replicas = config.MaxReplicas
			},
			warnings: []string{"c.yaml:1: sharing.timeSlicing.resources[0].replicas: " + tooMany},
		},
		"numbers as Helm writes large ones": {
			file: "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1.6384e+04}, {name: mig-1g.5gb, replicas: 1e+06}]}}",
			want: func(c *config.Config) {
				c.Sharing = sharing(config.SharingTimeSlicing, "nvidia.com/gpu", "nvidia.com/mig-1g.5gb")
				c.Sharing.Shares[0].Replicas, c.Sharing.Shares[1].Replicas = 16384, config.MaxReplicas
			},
			warnings: []string{"c.yaml:1: sharing.timeSlicing.resources[1].replicas: " + tooMany},
		},
		"more replicas than any list holds, in resource-config": {
			flags: config.Explicit{"resource-config": {"gpu:gpu:1000000"}},
			want: func(c *config.Config) {
				c.Sharing, c.Policy = sharing(config.SharingTimeSlicing, "nvidia.com/gpu"), config.PolicySpread
				c.Sharing.Shares[0].Replicas = config.MaxReplicas
			},
			warnings: []string{`flag --resource-config: entry 1, "gpu:gpu:1000000": ` + tooMany},
		},
		"sections without resources": {
			file: "sharing:\n  timeSlicing: {}\n  mps: {renameByDefault: true, resources: []}\n",
			warnings: []string{
				"c.yaml:2: sharing.timeSlicing: " + nothing,
				"c.yaml:3: sharing.mps: " + nothing,
			},
		},
		"an empty section beside the other": {
			file:     "sharing:\n  timeSlicing: {}\n  mps: {resources: [{name: gpu, replicas: 2}]}\n",
			want:     func(c *config.Config) { c.Sharing = sharing(config.SharingMPS, "nvidia.com/gpu") },
			warnings: []string{"c.yaml:2: sharing.timeSlicing: " + nothing},
		},
		"an empty section beside resource-config": {
			flags: config.Explicit{"resource-config": {"gpu:gpu:2"}},
			file:  "sharing: {timeSlicing: {}}",
			want: func(c *config.Config) {
				c.Sharing, c.Policy = sharing(config.SharingTimeSlicing, "nvidia.com/gpu"), config.PolicySpread
			},
			warnings: []string{"c.yaml:1: sharing.timeSlicing: " + nothing},
		},
		"intervals without a pause": {
			flags:    config.Explicit{"sleep-interval": {"0s"}},
			file:     "flags: {gfd: {sleepInterval: 60}}",
			warnings: []string{`flag --sleep-interval: "0s" is 0s, ` + tooShort, `c.yaml:1: flags.gfd.sleepInterval: "60" is 60ns, ` + tooShort},
		},
		"empty lists of strategies": {
			flags:    config.Explicit{"device-list-strategy": {}, "default-device-list-strategy": {"cdi-cri"}},
			file:     "flags: {plugin: {deviceListStrategy: []}}",
			want:     func(c *config.Config) { c.ListStrategies = []config.ListStrategy{config.ListCDICRI} },
			warnings: []string{"flag --device-list-strategy: " + empty, "c.yaml:1: flags.plugin.deviceListStrategy: " + empty},
		},
		"words for true and false": {
			file: "flags: {failOnInitError: yes, gdsEnabled: On, mofedEnabled: no, plugin: {passDeviceSpecs: Y}}",
			want: func(c *config.Config) { c.FailOnInitError, c.GDS, c.PassDeviceSpecs = true, true, true },
		},
		"merge keys": {
			file: "sharing:\n  timeSlicing:\n    resources:\n    - &one {name: gpu, replicas: 2}\n    - {<<: *one, name: mig-1g.5gb}\n",
			want: func(c *config.Config) {
				c.Sharing = sharing(config.SharingTimeSlicing, "nvidia.com/gpu", "nvidia.com/mig-1g.5gb")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Load(tc.flags, []byte(tc.file), "c.yaml")
			assert.NilError(t, err)
			want := config.Default()
			if tc.want != nil {
				tc.want(&want)
			}
			want.Warnings = tc.warnings
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}
