package resource_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// matchesGPU reports whether a pattern of GPUs matches the GPU.
func matchesGPU(g gpu.GPU, pattern string) bool {
	c := config.Config{Resources: config.Resources{GPUs: []config.Pattern{{Pattern: pattern, Name: "nvidia.com/match"}}}}
	set := resource.Derive(&gpu.Node{GPUs: []gpu.GPU{g}}, health.View{}, c)
	return set.Resources[0].Name == "nvidia.com/match"
}

func TestPatternsOfGPUs(t *testing.T) {
	h100 := gputest.Node(gputest.H100, 2).GPUs[1]
	for pattern, want := range map[string]bool{
		"*":                     true,
		"**":                    true,
		"NVIDIA H100 80GB HBM3": true,
		"NVIDIA H100*":          true,
		"*H100*":                true,
		"*HBM3":                 true,
		"N*H*3":                 true,
		"H100":                  false,
		"NVIDIA H100":           false,
		"NVIDIA H100 80GB HBM?": false,
		"NVIDIA.H100 80GB HBM3": false,
		"":                      false,
		"GPU-00000000-0000-4000-8000-000000000001": true,
		"GPU-*1":           true,
		"GPU-*2":           false,
		"80GB":             true, // 81559 MiB
		"79GB":             false,
		"0000:0f:00.0":     true,
		"0000:0F:00.0":     true,
		"00000000:0f:00.0": true,
		"00000000:0F:00.0": true,
		"0000:0f:*":        true,
		"0000:07:*":        false,
	} {
		if got := matchesGPU(h100, pattern); got != want {
			t.Errorf("%q matches: %v, want %v", pattern, got, want)
		}
	}
	for model, memory := range map[gputest.Model]string{
		gputest.A100: "40GB", gputest.A10080: "80GB", gputest.A30: "24GB", gputest.H200: "141GB", gputest.B200: "180GB", gputest.L4: "23GB",
	} {
		if g := gputest.Node(model, 1).GPUs[0]; !matchesGPU(g, memory) {
			t.Errorf("%s with %d MiB is not %s", model, g.MemoryBytes>>20, memory)
		}
	}
}

// What is not known of a GPU is like no pattern, not even one for any text.
func TestPatternsOfAGPUOfWhichLittleIsKnown(t *testing.T) {
	g := gpu.GPU{UUID: "GPU-0", PCI: gpu.PCI{BusID: "odd"}, Fault: &gpu.Fault{Op: "nvml", Reason: "lost"}}
	for pattern, want := range map[string]bool{"0GB": false, "": false, "GPU-0": true, "odd": true, "*:00.0": false} {
		if got := matchesGPU(g, pattern); got != want {
			t.Errorf("%q matches: %v, want %v", pattern, got, want)
		}
	}
}

// Patterns are compared with regular expressions, which are slower and known to
// be right.
func TestPatternsAreAnchoredGlobs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet string) string {
		var b strings.Builder
		for range r.IntN(8) {
			b.WriteByte(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	matched := 0
	for range 20_000 {
		pattern, name := text("ab.*"), "n"+text("ab.")
		g := gpu.GPU{UUID: "unlike", Name: name}
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta("n"+pattern), `\*`, ".*") + "$").MatchString(name)
		if got := matchesGPU(g, "n"+pattern); got != want {
			t.Fatalf("%q matches %q: %v, want %v", "n"+pattern, name, got, want)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("only %d of the pairs match", matched)
	}
}

func TestPatternsOfResources(t *testing.T) {
	n := gputest.Divided(gputest.A100, 2, []string{"3g.20gb", "2g.10gb", "1g.5gb+me"})
	uuid := string(n.GPUs[0].MIG.Devices[1].UUID)
	for name, tc := range map[string]struct {
		config config.Resources
		want   []string
	}{
		"the first that matches decides": {
			config: config.Resources{
				GPUs: []config.Pattern{{Pattern: "*L4*", Name: "nvidia.com/l4"}, {Pattern: "*A100*", Name: "nvidia.com/a100"}, {Pattern: "*", Name: "nvidia.com/other"}},
				MIG:  []config.Pattern{{Pattern: "1g.5gb", Name: "nvidia.com/no"}, {Pattern: "1g.*", Name: "nvidia.com/tiny"}, {Pattern: "*", Name: "nvidia.com/slice"}},
			},
			want: []string{"nvidia.com/a100: 1", "nvidia.com/slice: 0:0 0:1", "nvidia.com/tiny: 0:2"},
		},
		"a MIG device by its UUID": {
			config: config.Resources{MIG: []config.Pattern{{Pattern: uuid, Name: "nvidia.com/mine"}}},
			want:   []string{"nvidia.com/gpu: 1", "nvidia.com/mig-1g.5gb.me: 0:2", "nvidia.com/mig-3g.20gb: 0:0", "nvidia.com/mine: 0:1"},
		},
		"patterns of GPUs are none of MIG devices": {
			config: config.Resources{GPUs: []config.Pattern{{Pattern: "*", Name: "nvidia.com/all"}}},
			want:   []string{"nvidia.com/all: 1", "nvidia.com/mig-1g.5gb.me: 0:2", "nvidia.com/mig-2g.10gb: 0:1", "nvidia.com/mig-3g.20gb: 0:0"},
		},
		"two names with one socket": {
			config: config.Resources{GPUs: []config.Pattern{{Pattern: "*", Name: "other.example/mig-3g.20gb"}}},
			want: []string{
				"nvidia.com/mig-1g.5gb.me: 0:2", "nvidia.com/mig-2g.10gb: 0:1", "nvidia.com/mig-3g.20gb: 0:0",
				"config 1: other.example/mig-3g.20gb would have the same socket as nvidia.com/mig-3g.20gb: rename one of them",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Config{MIGStrategy: config.MIGStrategyMixed, Resources: tc.config}
			if diff := cmp.Diff(tc.want, short(resource.Derive(n, health.View{}, c))); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}
