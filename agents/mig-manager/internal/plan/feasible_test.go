package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// The published number of maximal layouts is 19; these follow from the same rules. The figures
// of A30 with media extensions depend on whether 1g+me and 2g+me can be next to each other. As
// the GPU has one JPEG engine and one OFA, they cannot; without that rule, there are 8 layouts
// and 2 multisets more.
func TestCounts(t *testing.T) {
	for name, c := range map[string]struct {
		product, without string
		layouts, sets    int
	}{
		"7 slices without media extensions": {"a100-40", "+me", 723, 77},
		"7 slices":                          {"a100-40", "", 2319, 127},
		"A30 without media extensions":      {"a30", "+me", 26, 9},
		"A30":                               {"a30", "", 84 - 8, 21 - 2},
	} {
		t.Run(name, func(t *testing.T) {
			layouts := 0
			all := allLayouts(board(t, c.product))
			for _, l := range all {
				if c.without == "" || !strings.Contains(key(l.Devices()), c.without) {
					layouts++
				}
			}
			if sets := len(multisets(all, c.without)) - 1; layouts != c.layouts || sets != c.sets {
				t.Errorf("there are %d layouts and %d multisets that are not empty, want %d and %d", layouts, sets, c.layouts, c.sets)
			}
		})
	}
}

// Every feasible multiset of every product is placed, from an empty GPU, and has the steps.
func TestFeasible(t *testing.T) {
	for _, product := range boards.All() {
		t.Run(product.Name, func(t *testing.T) {
			t.Parallel()
			b := product.Board
			sets := multisets(allLayouts(b), "")
			for k, l := range sets {
				want := l.Devices()
				got, err := plan.Target(b, nil, want, nil)
				if err != nil {
					t.Errorf("%s is feasible: %v", k, err)
					continue
				}
				if why := legal(b, got); why != "" || !equal(got.Devices(), want) {
					t.Errorf("%s became %s: %s", k, text(got), why)
				}
				follow(t, b, nil, got)
			}
			t.Logf("%d multisets are feasible", len(sets)-1)
		})
	}
}

// Every infeasible multiset up to the largest numbers of the profiles is rejected. Where there
// are too many of them, and on boards that differ in their engines only, those that are
// infeasible by one instance stand for the others: more instances need more.
func TestInfeasibleMultisets(t *testing.T) {
	for name, all := range map[string]bool{"a100-40": true, "a30": true, "h100-80": false, "b200": false, "rtx-pro-6000": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := board(t, name)
			feasible := multisets(allLayouts(b), "")
			rejected, slowest := 0, time.Duration(0)
			every(b, 0, 0, map[gpu.Profile]int{}, func(want map[gpu.Profile]int) {
				if _, fits := feasible[key(want)]; fits || !all && !byOne(feasible, want) {
					return
				}
				start := time.Now()
				_, err := plan.Target(b, nil, want, nil)
				slowest = max(slowest, time.Since(start))
				checkInfeasible(t, feasible, want, err)
				rejected++
			})
			t.Logf("%d multisets are rejected, the slowest in %v", rejected, slowest)
		})
	}
}

// byOne reports whether devices are feasible without one of them.
func byOne(feasible map[string]mig.Layout, want map[gpu.Profile]int) bool {
	for p, n := range want {
		if n == 0 {
			continue
		}
		want[p]--
		_, fits := feasible[key(want)]
		want[p]++
		if fits {
			return true
		}
	}
	return false
}

// every calls visit with each multiset of profiles up to their largest numbers; but those with
// two instances more than a board has slices are none that lack one to be feasible.
func every(b mig.Board, from, total int, want map[gpu.Profile]int, visit func(map[gpu.Profile]int)) {
	if from == len(b.Profiles) {
		visit(want)
		return
	}
	p := b.Profiles[from]
	for n := range p.Max + 1 {
		if total+n > b.MemorySlices+1 && len(b.Profiles) > 7 {
			break
		}
		want[p.Name] = n
		every(b, from+1, total+n, want, visit)
	}
	delete(want, p.Name)
}

// checkInfeasible checks that an error says why, and that what it proposes is feasible.
func checkInfeasible(t *testing.T, feasible map[string]mig.Layout, want map[gpu.Profile]int, err error) {
	t.Helper()
	var infeasible *plan.Infeasible
	if !errors.As(err, &infeasible) {
		t.Errorf("%s: %v, want an Infeasible", key(want), err)
		return
	}
	if len(infeasible.Causes) == 0 || len(infeasible.Nearest) == 0 || len(infeasible.Excess) == 0 || len(err.Error()) > 600 {
		t.Errorf("%s: %+v", key(want), infeasible)
	}
	for _, c := range infeasible.Causes {
		if c.Limit != plan.Placements && c.Need <= c.Have {
			t.Errorf("%s: the cause %q is none", key(want), c)
		}
	}
	for _, n := range infeasible.Nearest {
		if _, ok := feasible[key(n)]; !ok {
			t.Errorf("%s: proposes %s, which is not feasible", key(want), key(n))
		}
	}
	rest := map[gpu.Profile]int{}
	for p, n := range want {
		rest[p] = n - infeasible.Excess[p]
	}
	if !equal(rest, infeasible.Nearest[0]) {
		t.Errorf("%s without %s is not %s", key(want), key(infeasible.Excess), key(infeasible.Nearest[0]))
	}
}
