package plan_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// The published number of maximal layouts is 19; these follow from the same rules. Of A30 with media
// extensions, 21 multisets are counted elsewhere: with 1g.6gb+me beside 2g.12gb+me, there are 8
// layouts and 2 multisets more. NVIDIA's MIG user guide (docs.nvidia.com, "Supported MIG Profiles",
// table "A30 MIG Profiles") gives one JPEG and one OFA engine to each of 1g.6gb+me, 2g.12gb+me and
// 4g.24gb, and 4g.24gb is the whole GPU: two of them cannot exist together.
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

// Every infeasible multiset of every product is rejected: products with the same rules are tried
// once. A layout without one of its instances is a layout, so that every part of a feasible multiset is feasible, and a multiset that has an infeasible
// part is infeasible. Each infeasible one has a smallest infeasible part, which is feasible without any
// one of its instances: those that are infeasible by one instance, all of which are tried here, prove
// the others. That the planner itself is monotonous, TestMoreThanInfeasible tests. On two boards, all
// infeasible multisets up to the largest numbers of the profiles are tried.
func TestInfeasibleMultisets(t *testing.T) {
	all := map[string]bool{"a100-40": true, "a30": true}
	for _, product := range distinct() {
		t.Run(product.Name, func(t *testing.T) {
			t.Parallel()
			b := product.Board
			feasible := multisets(allLayouts(b), "")
			rejected, slowest := 0, time.Duration(0)
			reject := func(want map[gpu.Profile]int) {
				start := time.Now()
				_, err := plan.Target(b, nil, want, nil)
				slowest = max(slowest, time.Since(start))
				checkInfeasible(t, feasible, want, err)
				rejected++
			}
			if all[product.Name] {
				every(b, 0, map[gpu.Profile]int{}, func(want map[gpu.Profile]int) {
					if _, fits := feasible[key(want)]; !fits {
						reject(want)
					}
				})
			} else {
				for _, want := range byOne(b, feasible) {
					reject(want)
				}
			}
			t.Logf("%d multisets are rejected, the slowest in %v", rejected, slowest)
		})
	}
}

// More of what is infeasible is infeasible, of every product, also with parts of GPU instances.
func TestMoreThanInfeasible(t *testing.T) {
	for _, product := range distinct() {
		t.Run(product.Name, func(t *testing.T) {
			t.Parallel()
			b, random := product.Board, rand.New(rand.NewPCG(1, 2))
			var devices []gpu.Profile
			for _, p := range b.Profiles {
				for _, c := range p.Compute {
					of := p.Name
					of.ComputeSlices = c.Slices
					devices = append(devices, of)
				}
			}
			feasible := multisets(allLayouts(b), "")
			least := byOne(b, feasible)
			for range 400 {
				want := maps.Clone(least[random.IntN(len(least))])
				for range 1 + random.IntN(6) {
					want[devices[random.IntN(len(devices))]]++
				}
				if _, err := plan.Target(b, nil, want, nil); !infeasible(err) {
					t.Errorf("%s is more than what does not fit: %v", key(want), err)
				}
			}
		})
	}
}

// distinct returns the products whose boards differ by more than their memory, by which profiles are
// named: what is infeasible on one is on all that are alike.
func distinct() []boards.Product {
	known := map[string]bool{}
	return slices.DeleteFunc(boards.All(), func(p boards.Product) bool {
		rules := p.Board
		rules.Profiles = slices.Clone(rules.Profiles)
		for i := range rules.Profiles {
			rules.Profiles[i].MemoryBytes, rules.Profiles[i].Name.GB = 0, 0
			rules.Profiles[i].Engines.Multiprocessors = 0
		}
		of := fmt.Sprintf("%+v", rules)
		defer func() { known[of] = true }()
		return known[of]
	})
}

func infeasible(err error) bool {
	_, is := errors.AsType[*plan.Infeasible](err)
	return is
}

// byOne returns the multisets that are infeasible, and feasible without one of their instances.
func byOne(b mig.Board, feasible map[string]mig.Layout) []map[gpu.Profile]int {
	found := map[string]map[gpu.Profile]int{}
	for _, l := range feasible {
		for _, p := range b.Profiles {
			more := l.Devices()
			more[p.Name]++
			if _, fits := feasible[key(more)]; !fits {
				found[key(more)] = more
			}
		}
	}
	var list []map[gpu.Profile]int
	for _, k := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[k])
	}
	return list
}

// every calls visit with each multiset of profiles up to their largest numbers.
func every(b mig.Board, from int, want map[gpu.Profile]int, visit func(map[gpu.Profile]int)) {
	if from == len(b.Profiles) {
		visit(want)
		return
	}
	p := b.Profiles[from]
	for n := range p.Max + 1 {
		want[p.Name] = n
		every(b, from+1, want, visit)
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
