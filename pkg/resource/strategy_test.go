package resource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func balanced() []string { return []string{"3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"} }

// TestLayouts has, for each way in which the GPUs of a node are divided, what
// each MIG strategy advertises with each way of sharing.
func TestLayouts(t *testing.T) {
	for name, n := range map[string]*gpu.Node{
		"no GPU is divided":                      gputest.Divided(gputest.A100, 2),
		"all GPUs are divided alike":             gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"), gputest.Times(2, "3g.20gb")),
		"one GPU has several profiles":           gputest.Divided(gputest.A100, 1, balanced()),
		"two GPUs differ in their profiles":      gputest.Divided(gputest.A100, 2, gputest.Times(7, "1g.5gb"), gputest.Times(2, "3g.20gb")),
		"a GPU is divided and others are not":    gputest.Divided(gputest.A100, 3, gputest.Times(2, "3g.20gb")),
		"a GPU with MIG mode on has no devices":  gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"), nil),
		"GPU instances are divided further":      gputest.Divided(gputest.A100, 1, gputest.Times(6, "1c.3g.20gb")),
		"a profile has media engines":            gputest.Divided(gputest.A100, 1, []string{"1g.5gb+me", "1g.5gb"}),
		"models differ and have the same layout": gputest.Partition(gputest.Partition(gputest.Mixed(gputest.A10080, gputest.H100), 0, gputest.Times(2, "3g.40gb")...), 1, gputest.Times(2, "3g.40gb")...),
		"models differ and none is divided":      gputest.Mixed(gputest.A100, gputest.L4),
		"no GPU is there":                        {},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, mig := range []config.MIGStrategy{config.MIGStrategyNone, config.MIGStrategySingle, config.MIGStrategyMixed} {
				for _, s := range []config.SharingStrategy{config.SharingNone, config.SharingTimeSlicing, config.SharingMPS} {
					fmt.Fprintf(&b, "migStrategy %s, sharing %s\n\n", mig, s)
					c := config.Config{MIGStrategy: mig, Sharing: shareAll(s)}
					b.WriteString(listing(resource.Derive(n, health.View{}, c)) + "\n")
				}
			}
			golden.Assert(t, b.String(), strings.ReplaceAll(name, " ", "_")+".golden")
		})
	}
}

func shareAll(s config.SharingStrategy) config.Sharing {
	if s == config.SharingNone {
		return config.Sharing{Strategy: s}
	}
	var shares []config.Share
	for _, name := range []string{"nvidia.com/gpu", "nvidia.com/mig-3g.20gb"} {
		shares = append(shares, config.Share{Name: name, Rename: name, Replicas: 4})
	}
	return config.Sharing{Strategy: s, FailRequestsGreaterThanOne: s == config.SharingMPS, Shares: shares}
}

func TestMIGNames(t *testing.T) {
	for profile, want := range map[string]string{
		"1g.5gb":         "nvidia.com/mig-1g.5gb",
		"1g.5gb+me":      "nvidia.com/mig-1g.5gb.me",
		"1g.24gb+me.all": "nvidia.com/mig-1g.24gb.me.all",
		"1g.24gb+gfx":    "nvidia.com/mig-1g.24gb.gfx",
		"1g.24gb-me":     "nvidia.com/mig-1g.24gb-me",
		"1c.3g.20gb":     "nvidia.com/mig-1c.3g.20gb",
		"1c.2g.48gb+gfx": "nvidia.com/mig-1c.2g.48gb.gfx",
		"1c.1g.10gb":     "nvidia.com/mig-1g.10gb",
	} {
		p, err := gpu.ParseProfile(profile)
		assert.NilError(t, err)
		n := &gpu.Node{GPUs: []gpu.GPU{{UUID: "GPU-0", MIG: &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{{UUID: "MIG-0", Profile: p}}}}}}
		set := resource.Derive(n, health.View{}, config.Config{MIGStrategy: config.MIGStrategyMixed})
		if diff := cmp.Diff([]string{want + ": 0:0"}, short(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", profile, diff)
		}
	}
}

func TestSingleAdvertisesOneClass(t *testing.T) {
	const (
		prefix = "migStrategy single advertises only equal devices as nvidia.com/gpu, on this node the devices with the most memory in total, "
		whole  = "; this GPU is whole: divide it likewise, set migStrategy to mixed, or give it another name in resources.gpus"
	)
	part := func(profile string) string {
		return "; this is one of the MIG devices " + profile + " of NVIDIA A100-SXM4-40GB:" +
			" divide all GPUs alike, set migStrategy to mixed, or give it another name in resources.mig"
	}
	const threes = "MIG devices 3g.20gb of NVIDIA A100-SXM4-40GB"
	lost := &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: "GPU is lost"}
	for name, tc := range map[string]struct {
		node   *gpu.Node
		view   health.View
		config config.Config
		want   []string
	}{
		"more memory goes before more devices": {
			node: gputest.Divided(gputest.A100, 1, balanced()),
			want: []string{
				"nvidia.com/gpu: 0:0",
				"mig 0:1: " + prefix + threes + part("2g.10gb"),
				"mig 0:2: " + prefix + threes + part("1g.5gb"),
				"mig 0:3: " + prefix + threes + part("1g.5gb"),
			},
		},
		"a few MIG devices do not displace whole GPUs": {
			node: gputest.Divided(gputest.A100, 3, gputest.Times(2, "3g.20gb")),
			want: []string{
				"nvidia.com/gpu: 1 2",
				"mig 0:0: " + prefix + "whole GPUs" + part("3g.20gb"),
				"mig 0:1: " + prefix + "whole GPUs" + part("3g.20gb"),
			},
		},
		"MIG devices go before as many whole GPUs": {
			node: func() *gpu.Node {
				n := gputest.Divided(gputest.A100, 2, gputest.Times(1, "7g.40gb"))
				n.GPUs[0].MIG.Devices[0].MemoryBytes = n.GPUs[1].MemoryBytes
				return n
			}(),
			want: []string{
				"nvidia.com/gpu: 0:0",
				"mig 1: " + prefix + "MIG devices 7g.40gb of NVIDIA A100-SXM4-40GB" + whole,
			},
		},
		"whole GPUs of several models are one class": {
			node: gputest.Mixed(gputest.A100, gputest.L4),
			want: []string{"nvidia.com/gpu: 0 1"},
		},
		"parts of GPU instances do not count their memory several times": {
			node: gputest.Divided(gputest.A100, 1, []string{"4g.20gb", "1c.3g.20gb", "1c.3g.20gb"}),
			want: []string{
				"nvidia.com/gpu: 0:0",
				"mig 0:1: " + prefix + "MIG devices 4g.20gb of NVIDIA A100-SXM4-40GB" + part("1c.3g.20gb"),
				"mig 0:2: " + prefix + "MIG devices 4g.20gb of NVIDIA A100-SXM4-40GB" + part("1c.3g.20gb"),
			},
		},
		"what the config hides does not count": {
			node:   gputest.Divided(gputest.A100, 3, gputest.Times(2, "3g.20gb")),
			config: config.Config{Filter: config.Filter{Exclude: []string{"1", "2"}}},
			want: []string{
				"nvidia.com/gpu: 0:0 0:1",
				`excluded 1: the config excludes "1"`,
				`excluded 2: the config excludes "2"`,
			},
		},
		"what has a name of its own does not count": {
			node: gputest.Divided(gputest.A100, 3, gputest.Times(2, "3g.20gb")),
			config: config.Config{Resources: config.Resources{
				GPUs: []config.Pattern{{Pattern: "*A100*", Name: "nvidia.com/a100"}},
			}},
			want: []string{"nvidia.com/a100: 1 2", "nvidia.com/gpu: 0:0 0:1"},
		},
		"a pattern that names the same resource does not mix it": {
			node: gputest.Divided(gputest.A100, 3, gputest.Times(2, "3g.20gb"), gputest.Times(2, "3g.20gb")),
			config: config.Config{Resources: config.Resources{
				GPUs: []config.Pattern{{Pattern: "*", Name: "nvidia.com/gpu"}},
				MIG:  []config.Pattern{{Pattern: "*", Name: "nvidia.com/gpu"}},
			}},
			want: []string{"nvidia.com/gpu: 0:0 0:1 1:0 1:1", "mig 2: " + prefix + threes + whole},
		},
		"without anything under the name nothing is left out": {
			node: gputest.Divided(gputest.A100, 1, gputest.Times(2, "3g.20gb")),
			config: config.Config{Resources: config.Resources{
				MIG: []config.Pattern{{Pattern: "3g.*", Name: "nvidia.com/half"}},
			}},
			want: []string{"nvidia.com/half: 0:0 0:1"},
		},
		"health does not decide": {
			node: gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"), gputest.Times(7, "1g.5gb")),
			view: health.View{GPUs: map[gpu.UUID]health.Status{
				"GPU-00000000-0000-4000-8000-000000000000": {Reason: "xid 79"},
			}},
			want: append([]string{"nvidia.com/gpu: 0:0(xid 79) 0:1(xid 79)"}, func() []string {
				var out []string
				for i := range 7 {
					out = append(out, fmt.Sprintf("mig 1:%d: %s", i, prefix+threes+part("1g.5gb")))
				}
				return out
			}()...),
		},
		"a GPU that fails before its MIG mode was read is reported with its fault": {
			node: func() *gpu.Node {
				n := gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"))
				n.GPUs[1] = gpu.GPU{Index: 1, UUID: "GPU-1", Fault: lost}
				return n
			}(),
			want: []string{"nvidia.com/gpu: 0:0 0:1", "fault 1: nvmlDeviceGetUUID: GPU is lost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.config.MIGStrategy = config.MIGStrategySingle
			if diff := cmp.Diff(tc.want, short(resource.Derive(tc.node, tc.view, tc.config))); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}
