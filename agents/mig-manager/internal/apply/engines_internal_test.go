package apply

import (
	"testing"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// A driver that has room for 2g.12gb+me beside 1g.6gb+me, or that has both, shares the one JPEG engine
// of an A30.
func TestSharing(t *testing.T) {
	product, ok := boards.Named("a30")
	if !ok {
		t.Fatal("no a30")
	}
	var small, big, plain gpu.Profile
	for _, p := range product.Board.Profiles {
		switch p.Name.String() {
		case "1g.6gb+me":
			small = p.Name
		case "2g.12gb+me":
			big = p.Name
		case "2g.12gb":
			plain = p.Name
		}
	}
	for name, c := range map[string]struct {
		has      []gpu.Profile
		capacity map[gpu.Profile]int
		want     bool
	}{
		"an empty GPU with room for either":          {nil, map[gpu.Profile]int{small: 1, big: 1, plain: 2}, false},
		"one, and no room for the other":             {[]gpu.Profile{small}, map[gpu.Profile]int{small: 0, big: 0, plain: 1}, false},
		"one, and room for the other":                {[]gpu.Profile{small}, map[gpu.Profile]int{big: 1}, true},
		"both":                                       {[]gpu.Profile{small, big}, nil, true},
		"one without media engines, and room for it": {[]gpu.Profile{plain}, map[gpu.Profile]int{big: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := mig.GPU{Board: product.Board}
			for _, p := range c.has {
				g.Layout = append(g.Layout, mig.Instance{Profile: p})
			}
			if got := exceedsEngines(g, c.capacity); got != c.want {
				t.Errorf("sharing() = %t, want %t", got, c.want)
			}
		})
	}
}
