package plan_test

import (
	"errors"
	"maps"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func profile(t testing.TB, text string) gpu.Profile {
	t.Helper()
	p, err := gpu.ParseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func row(t testing.TB, text string, number, size, most int, starts ...int) mig.Profile {
	p := mig.Profile{Name: profile(t, text), Number: number, Max: most}
	for _, s := range starts {
		p.Placements = append(p.Placements, gpu.Placement{Start: s, Size: size})
	}
	for n := 1; n <= p.Name.GPUSlices; n++ {
		c := mig.ComputeProfile{Slices: n}
		for s := 0; s+n <= p.Name.GPUSlices; s += n {
			c.Placements = append(c.Placements, gpu.Placement{Start: s, Size: n})
			c.Max++
		}
		p.Compute = append(p.Compute, c)
	}
	return p
}

func board(t testing.TB) mig.Board {
	t.Helper()
	return mig.Board{MemorySlices: 8, ComputeSlices: 7, Profiles: []mig.Profile{
		row(t, "1g.10gb", 0, 1, 7, 0, 1, 2, 3, 4, 5, 6), row(t, "2g.20gb", 1, 2, 3, 0, 2, 4),
		row(t, "3g.40gb", 2, 4, 2, 0, 4), row(t, "4g.40gb", 3, 4, 1, 0), row(t, "7g.80gb", 4, 8, 1, 0),
		row(t, "1g.10gb+me", 7, 1, 1, 0, 1, 2, 3, 4, 5, 6), row(t, "1g.20gb", 9, 2, 4, 0, 2, 4, 6),
	}}
}

func TestTarget(t *testing.T) {
	b := board(t)
	want := map[gpu.Profile]int{profile(t, "1c.3g.40gb"): 2, profile(t, "2g.20gb"): 1, profile(t, "1g.10gb"): 1}
	l, err := plan.Target(b, nil, want, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(l.Devices(), want) {
		t.Errorf("the layout has %v, want %v", l.Devices(), want)
	}
	if steps := plan.Steps(b, nil, l); len(steps) != 7 || steps[0].String() != "create GPU instance 1g.10gb at 1:1" {
		t.Errorf("Steps() = %v, want 3 GPU instances and 4 compute instances", steps)
	}
}

func TestInfeasible(t *testing.T) {
	for devices, text := range map[string]string{
		"3g.40gb": "fit 3 × 3g.40gb on one GPU: at least 3 GPU instances for 3g.40gb are needed, and the GPU can have 2; " +
			"what fits: 2 × 3g.40gb, or 3g.40gb + 2 × 2g.20gb, or 3g.40gb + 2g.20gb + 1g.20gb",
		"3g.20gb": "fit 3 × 3g.20gb on one GPU: the GPU has no profile 3g.20gb, the nearest are 3g.40gb, 2g.20gb, 2c.3g.40gb; " +
			"what fits: 3g.40gb + 2 × 2g.20gb, or 3g.40gb + 2g.20gb + 1g.20gb",
	} {
		_, err := plan.Target(board(t), nil, map[gpu.Profile]int{profile(t, devices): 3}, nil)
		var infeasible *plan.Infeasible
		if !errors.As(err, &infeasible) || err.Error() != text {
			t.Errorf("3 of %s: %v, want %s", devices, err, text)
		}
	}
}
