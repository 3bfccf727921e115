package plan_test

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func TestInfeasibleText(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct{ product, want string }{
		{"a100-80", "3*3g.40gb"},
		{"a100-80", "2*3g.40gb 1g.10gb"},
		{"a100-80", "7g.80gb 1g.10gb"},
		{"a100-80", "4*2g.20gb"},
		{"a100-80", "2*1g.10gb+me"},
		{"a100-80", "7*1g.5gb"},
		{"a100-80", "3g.20gb 2g.10gb 1g.5gb+me"},
		{"a100-80", "7*1c.3g.40gb"},
		{"a100-80", "3*2c.3g.40gb 1c.3g.40gb"},
		{"a100-80", "5c.7g.80gb"},
		{"a100-80", "7g.80gb 4g.40gb 2*3g.40gb 3*2g.20gb 4*1g.20gb 7*1g.10gb 1g.10gb+me"},
		{"a30", "1g.6gb+me 2g.12gb+me"},
		{"a30", "1g.6gb+gfx"},
		{"rtx-pro-6000", "1g.24gb+me.all 1g.24gb"},
		{"rtx-pro-6000", "1000000000*1g.24gb"},
	} {
		_, err := plan.Target(board(t, c.product), nil, devices(t, c.want), nil)
		if _, ok := errors.AsType[*plan.Infeasible](err); !ok {
			t.Fatalf("%s on %s: %v", c.want, c.product, err)
		}
		all.WriteString(c.product + ": " + err.Error() + "\n")
	}
	golden.Assert(t, all.String(), "infeasible.golden")
}

// Two profiles can have room by their sizes, and overlap wherever they start.
func TestInfeasibleByPlacement(t *testing.T) {
	b := board(t, "a30")
	b.Profiles = b.Profiles[:2]
	b.Profiles[1].Placements = []gpu.Placement{{Start: 1, Size: 2}}
	b.Profiles[0].Placements = []gpu.Placement{{Start: 1, Size: 1}, {Start: 2, Size: 1}}
	_, err := plan.Target(b, nil, devices(t, "2g.12gb 1g.6gb"), nil)
	var infeasible *plan.Infeasible
	if !errors.As(err, &infeasible) || infeasible.Causes[0].Limit != plan.Placements {
		t.Errorf("Target() = %v, want that they overlap", err)
	}
}

// Figures that contradict themselves are no limit: a GPU that can have seven instances with a
// decoder, and one decoder, shares it.
func TestMediaFiguresThatContradict(t *testing.T) {
	b := board(t, "b200")
	for i := range b.Profiles {
		b.Profiles[i].Engines.Decoder, b.Profiles[i].Engines.JPEG = 1, 1
	}
	if l, err := plan.Target(b, nil, devices(t, "7*1g.23gb"), nil); err != nil {
		t.Errorf("Target() = %s, %v", text(l), err)
	}
	if _, err := plan.Target(b, nil, devices(t, "2*1g.23gb+me"), nil); err == nil {
		t.Error("two instances have media extensions")
	}
}

// The driver has the last word on engines: instances that have more of them together than the GPU are
// refused, unless the board is known to share them.
func TestSharedEngines(t *testing.T) {
	b := board(t, "a30")
	want := devices(t, "1g.6gb+me 2g.12gb+me")
	var both []gpu.Profile
	for p := range want {
		both = append(both, p)
	}
	if !plan.ExceedsEngines(b, both) || plan.ExceedsEngines(b, both[:1]) || plan.ExceedsEngines(b, nil) {
		t.Error("ExceedsEngines() is not true of exactly both")
	}
	if _, err := plan.Target(b, nil, want, nil); !infeasible(err) {
		t.Errorf("Target() = %v", err)
	}
	b.SharedEngines = true
	l, err := plan.Target(b, nil, want, nil)
	if err != nil || !equal(l.Devices(), want) || plan.ExceedsEngines(b, both) {
		t.Errorf("Target() = %s, %v, of a board that shares its engines", text(l), err)
	}
	if steps := plan.Steps(b, nil, l); len(steps) != 4 {
		t.Errorf("Steps() = %v", steps)
	}
}

// A GPU without a board, as one in a fault, admits nothing.
func TestNoBoard(t *testing.T) {
	_, err := plan.Target(mig.Board{}, nil, devices(t, "1g.5gb"), nil)
	var infeasible *plan.Infeasible
	if !errors.As(err, &infeasible) || infeasible.Causes[0].Limit != plan.UnknownProfile {
		t.Errorf("Target() = %v", err)
	}
	if l, err := plan.Target(mig.Board{}, nil, nil, nil); err != nil || len(l) != 0 {
		t.Errorf("Target() = %v, %v", l, err)
	}
}
