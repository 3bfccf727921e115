package plan_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func TestDraw(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct{ title, product, layout string }{
		{"A GPU without instances:", "a30", ""},
		{"The balanced layout:", "h100-80", "1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4"},
		{"Seven instances, and the memory that is left:", "h200", "1g.18gb@0 1g.18gb+me@1 1g.18gb@2 1g.18gb@3 1g.18gb@4 1g.18gb@5 1g.18gb@6"},
		{"Compute instances, free slices, and a GPU instance without any:", "b300", "3g.135gb@0[1c@0,1c@2] 1g.67gb@4[] 1g.34gb@7"},
		{"The parts of the whole:", "gb300", "7g.278gb@0[2c@0,1c@2,3c@3,1c@6]"},
		{"Attributes:", "rtx-pro-6000", "1g.24gb-me@0 1g.24gb-me@1 2g.48gb+me.all@2[1c@0,1c@1]"},
	} {
		b := board(t, c.product)
		all.WriteString(c.title + "\n")
		assert.NilError(t, plan.Draw(&all, b, layout(t, b, c.layout)))
		all.WriteString("\n")
	}
	golden.Assert(t, all.String(), "draw.golden")
}

// Every layout of every product is at most 80 columns wide, and every line as wide as the first.
func TestDrawWidth(t *testing.T) {
	for _, p := range boards.All() {
		for _, l := range allLayouts(p.Board) {
			var out strings.Builder
			assert.NilError(t, plan.Draw(&out, p.Board, l))
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")[1:]
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > 80 || n != utf8.RuneCountInString(lines[0]) {
					t.Fatalf("%s %s: a line has %d columns:\n%s", p.Name, text(l), n, out.String())
				}
			}
			for _, i := range l {
				if name, _, _ := strings.Cut(i.Profile.String(), "+"); !strings.Contains(out.String(), strings.TrimSuffix(name, "-me")) {
					t.Fatalf("%s %s: %s is cut:\n%s", p.Name, text(l), name, out.String())
				}
			}
		}
	}
}

// What a broken driver may report is said, and not drawn.
func TestDrawNonsense(t *testing.T) {
	b := board(t, "h200")
	for name, l := range map[string]mig.Layout{
		"overlap":      {{Placement: gpu.Placement{Start: 0, Size: 4}}, {Placement: gpu.Placement{Start: 2, Size: 2}}},
		"beyond":       {{Placement: gpu.Placement{Start: 6, Size: 4}}},
		"no size":      {{Placement: gpu.Placement{Start: 6}}},
		"before":       {{Placement: gpu.Placement{Start: -1, Size: 1}}},
		"inner beyond": {{Profile: gpu.Profile{GPUSlices: 1}, Placement: gpu.Placement{Size: 1}, Compute: []mig.Compute{{Placement: gpu.Placement{Start: -3, Size: 99}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			assert.NilError(t, plan.Draw(&out, b, l))
			if drawn := strings.Contains(out.String(), "┌"); drawn != (name == "inner beyond") {
				t.Errorf("Draw() = %s", out.String())
			}
		})
	}
	var out strings.Builder
	if err := plan.Draw(&out, mig.Board{}, nil); err != nil || !strings.Contains(out.String(), "0 memory slices") {
		t.Errorf("Draw() of no board = %q, %v", out.String(), err)
	}
}
