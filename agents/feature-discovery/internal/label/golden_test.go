package label_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// layout is a way to partition the GPUs of a node.
type layout struct {
	name string
	node *gpu.Node
}

// TestModels checks the labels of each model and layout with every MIG strategy and
// every sharing method. The golden file has the first labels of a model in full, and
// the others as the difference from the labels that their title names.
func TestModels(t *testing.T) {
	for model, layouts := range map[gputest.Model][]layout{
		gputest.L4: {{"whole", gputest.Divided(gputest.L4, 2)}},
		gputest.A30: {
			{"whole", gputest.Divided(gputest.A30, 2)},
			{"in MIG mode without devices", gputest.Divided(gputest.A30, 2, nil, nil)},
			{"alike", gputest.Divided(gputest.A30, 2, gputest.Times(4, "1g.6gb"), gputest.Times(4, "1g.6gb"))},
			{"several profiles, with media engines", gputest.Divided(gputest.A30, 2, []string{"2g.12gb+me", "1g.6gb", "1g.6gb"}, []string{"4g.24gb"})},
		},
		gputest.A100: {
			{"whole", gputest.Divided(gputest.A100, 8)},
			{"in MIG mode without devices", gputest.Divided(gputest.A100, 1, nil)},
			{"alike", gputest.Divided(gputest.A100, 2, gputest.Times(7, "1g.5gb"), gputest.Times(7, "1g.5gb"))},
			{"one is divided, one is whole", gputest.Divided(gputest.A100, 2, gputest.Times(2, "3g.20gb"))},
			{"several profiles", gputest.Divided(gputest.A100, 1, []string{"3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"})},
			{"with media engines", gputest.Divided(gputest.A100, 1, []string{"1g.5gb+me", "1g.5gb"})},
			{"GPU instances divided further", gputest.Divided(gputest.A100, 1, append(gputest.Times(3, "1c.3g.20gb"), "1c.3g.20gb", "2c.3g.20gb"))},
		},
		gputest.A10080: {
			{"whole", gputest.Divided(gputest.A10080, 4)},
			{"alike", gputest.Divided(gputest.A10080, 1, gputest.Times(2, "3g.40gb"))},
			{"one is divided, one has no devices", gputest.Divided(gputest.A10080, 2, []string{"7g.80gb"}, nil)},
		},
		gputest.H100: {
			{"whole", gputest.Divided(gputest.H100, 8)},
			{"alike", gputest.Divided(gputest.H100, 1, gputest.Times(7, "1g.10gb"))},
			{"with media engines", gputest.Divided(gputest.H100, 1, []string{"1g.10gb+me", "1g.10gb", "4g.40gb"})},
		},
		gputest.H200: {
			{"whole", gputest.Divided(gputest.H200, 8)},
			{"several profiles", gputest.Divided(gputest.H200, 1, []string{"1g.35gb", "2g.35gb", "3g.71gb"})},
		},
		gputest.B200: {
			{"whole", gputest.Divided(gputest.B200, 8)},
			{"alike", gputest.Divided(gputest.B200, 1, []string{"7g.180gb"})},
			{"GPU instances divided further", gputest.Divided(gputest.B200, 1, []string{"3g.90gb", "1c.3g.90gb"})},
		},
	} {
		t.Run(string(model), func(t *testing.T) {
			var b strings.Builder
			first := layout{node: &gpu.Node{}}
			for _, l := range layouts {
				every(t, &b, first, l)
				first = layouts[0]
			}
			golden.Assert(t, b.String(), string(model)+".golden")
		})
	}
}

// TestSixteen checks the node with the most devices of all, without sharing.
func TestSixteen(t *testing.T) {
	n := gputest.Divided(gputest.H100, 16, slices.Repeat([][]string{gputest.Times(7, "1g.10gb")}, 16)...)
	got := of(t, facts(n, load(t, strategy("mixed"))))
	if got["nvidia.com/mig-1g.10gb.count"] != "112" || got["nvidia.com/gpu.count"] != "16" {
		t.Errorf("%s MIG devices on %s GPUs, want 112 on 16", got["nvidia.com/mig-1g.10gb.count"], got["nvidia.com/gpu.count"])
	}
	golden.Assert(t, listing(got), "sixteen.golden")
}

// every writes the labels of a layout with every config. It compares the labels
// without MIG and sharing with those of the layout first, those of the other
// strategies with these, and those of a sharing method with those of its strategy.
func every(t *testing.T, b *strings.Builder, first, l layout) {
	t.Helper()
	title, base := first.name, label.Derive(facts(first.node, config.Config{}))
	for _, mig := range []string{"none", "single", "mixed"} {
		name := l.name + ", strategy " + mig
		plain := of(t, facts(l.node, shareAll(t, l.node, mig, "")))
		if len(first.node.GPUs) == 0 && mig == "none" {
			fmt.Fprintf(b, "# %s\n%s\n", name, listing(plain))
		} else {
			fmt.Fprintf(b, "# %s, beside %s\n%s\n", name, title, changes(base, plain))
		}
		for _, way := range []string{"time-slicing", "mps", "renamed"} {
			got := of(t, facts(l.node, shareAll(t, l.node, mig, way)))
			fmt.Fprintf(b, "# %s, %s, beside not shared\n%s\n", name, way, changes(plain, got))
		}
		if mig == "none" {
			title, base = "strategy none", plain
		}
	}
}

// shareAll returns a config with four replicas of each device of a node. MPS does
// not share MIG devices.
func shareAll(t *testing.T, n *gpu.Node, mig, way string) config.Config {
	t.Helper()
	resources := map[string]bool{"nvidia.com/gpu": true}
	for _, g := range n.GPUs {
		for i := 0; way != "mps" && g.MIG != nil && i < len(g.MIG.Devices); i++ {
			resources[config.MIGResource(g.MIG.Devices[i].Profile)] = true
		}
	}
	all := slices.Sorted(maps.Keys(resources))
	switch way {
	case "time-slicing":
		return load(t, strategy(mig), sharing("timeSlicing", "", 4, all...))
	case "mps":
		return load(t, strategy(mig), sharing("mps", "", 4, all...))
	case "renamed":
		return load(t, strategy(mig), sharing("timeSlicing", "renameByDefault: true, ", 4, all...))
	default:
		return load(t, strategy(mig))
	}
}
