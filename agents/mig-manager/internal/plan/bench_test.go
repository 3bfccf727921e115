package plan_test

import (
	"testing"

	"outrigger.dev/agents/mig-manager/internal/plan"
)

// BenchmarkTarget measures the worst cases of a plan. An infeasible config is to be rejected
// within 30 ms.
func BenchmarkTarget(b *testing.B) {
	for _, c := range []struct {
		name, product, now, want string
		infeasible               bool
	}{
		{"empty 7 slices", "h200", "", "2g.35gb 1g.35gb 1g.18gb+me 2*1g.18gb", false},
		{"empty RTX PRO 6000", "rtx-pro-6000", "", "1g.24gb 1g.24gb+gfx 1g.24gb+me 1g.24gb-me", false},
		{"kept instances", "h200", "1g.18gb@0 1g.18gb@3 1g.18gb@6", "2g.35gb 1g.35gb 1g.18gb+me 1g.18gb", false},
		{"parts", "h200", "", "1c.2g.35gb 1c.3g.71gb 1g.18gb", false},
		{"parts of the whole", "h200", "7g.141gb@0[1c@0,1c@3,1c@6]", "3c.7g.141gb 2c.7g.141gb 2*1c.7g.141gb", false},
		{"infeasible on 7 slices", "h200", "", "3g.71gb 2g.35gb 2*1g.35gb", true},
		{"infeasible RTX PRO 6000", "rtx-pro-6000", "", "2*2g.48gb+gfx 1g.24gb+me.all 4*1g.24gb-me", true},
		{"infeasible parts", "h200", "", "7*1c.7g.141gb 3*2c.7g.141gb 2*3c.7g.141gb 4c.7g.141gb 7g.141gb 3*1c.3g.71gb 4*1c.4g.71gb", true},
		{"a million", "rtx-pro-6000", "", "1000000*1g.24gb 1000000*1c.4g.96gb", true},
		{"unknown profiles", "h200", "", "3g.20gb 2g.10gb 2*1g.5gb", true},
	} {
		b.Run(c.name, func(b *testing.B) {
			board := board(b, c.product)
			now, want := layout(b, board, c.now), devices(b, c.want)
			for b.Loop() {
				if _, err := plan.Target(board, now, want, nil); (err != nil) != c.infeasible {
					b.Fatal(err)
				}
			}
		})
	}
}
