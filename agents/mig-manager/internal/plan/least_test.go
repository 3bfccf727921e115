package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// damage is what a change destroys: the smaller, the better.
func damage(now, target mig.Layout, inUse func(mig.Instance) bool) []int {
	busy, instances, compute := 0, 0, 0
	for _, i := range now {
		at := slices.IndexFunc(target, i.Same)
		if at < 0 {
			instances++
		}
		before := busy
		for _, c := range i.Compute {
			if at >= 0 && slices.ContainsFunc(target[at].Compute, c.Equal) {
				continue
			}
			compute++
			if only := i; inUse(with(only, c)) {
				busy++
			}
		}
		if at < 0 && busy == before && inUse(i) {
			busy++
		}
	}
	return []int{busy, instances, compute}
}

func with(i mig.Instance, c mig.Compute) mig.Instance {
	i.Compute = []mig.Compute{c}
	return i
}

// world is a board with all its layouts, and with all of those that have compute instances in
// every GPU instance by the key of their devices.
type world struct {
	board mig.Board
	all   []mig.Layout
	sets  map[string][]mig.Layout
	keys  []string
	free  map[string][]int
}

// newWorld has layouts whose GPU instances are divided if parts is set, and else only those
// with whole ones.
func newWorld(b mig.Board, parts bool) *world {
	w := &world{board: b, sets: map[string][]mig.Layout{}, free: map[string][]int{}}
	for _, l := range allLayouts(b) {
		if !parts {
			w.add(l)
			continue
		}
		for _, d := range divide(b, l) {
			w.add(d)
		}
	}
	return w
}

func (w *world) add(l mig.Layout) {
	w.all = append(w.all, l)
	if slices.ContainsFunc(l, func(i mig.Instance) bool { return len(i.Compute) == 0 }) {
		return
	}
	k := key(l.Devices())
	if w.sets[k] == nil {
		w.keys = append(w.keys, k)
	}
	w.sets[k] = append(w.sets[k], l)
}

// narrow is a board on which not only the placements limit what fits, as on all known boards,
// but also the compute slices and the largest numbers of instances.
func narrow(b mig.Board, compute int) mig.Board {
	if compute == 0 {
		return b
	}
	b.ComputeSlices = compute
	for i := range b.Profiles {
		p := &b.Profiles[i]
		p.Max = (p.Max + 1) / 2
		for c := range p.Compute {
			p.Compute[c].Max = (p.Compute[c].Max + 1) / 2
		}
	}
	return b
}

// From any layout to any feasible devices: the target is exact and does the least harm of all
// layouts that have the devices, and the steps never exceed what the board has.
func TestLeastHarm(t *testing.T) {
	for name, c := range map[string]struct {
		product string
		parts   bool
		narrow  int
		rounds  int
	}{
		"A30 and its parts":       {"a30", true, 0, 3000},
		"fewer compute slices":    {"h200", false, 5, 300},
		"fewer in parts":          {"a30", true, 3, 500},
		"RTX PRO 6000":            {"rtx-pro-6000", false, 0, 1500},
		"7 slices":                {"a100-80", false, 0, 1500},
		"7 slices of a Hopper":    {"h200", false, 0, 500},
		"7 slices of a Blackwell": {"gb200", false, 0, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(narrow(board(t, c.product), c.narrow), c.parts)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d, %d layouts with %d multisets", seed, len(w.all), len(w.keys))
			rng := rand.New(rand.NewPCG(seed, 0))
			for range c.rounds {
				w.change(t, rng)
			}
		})
	}
}

// change checks the way from a random layout to random devices.
func (w *world) change(t *testing.T, rng *rand.Rand) {
	t.Helper()
	now := w.all[rng.IntN(len(w.all))]
	candidates := w.sets[w.keys[rng.IntN(len(w.keys))]]
	busy := map[string]bool{}
	for _, i := range now {
		for _, c := range i.Compute {
			busy[place(i, c)] = rng.IntN(3) == 0
		}
	}
	inUse := func(i mig.Instance) bool {
		return slices.ContainsFunc(i.Compute, func(c mig.Compute) bool { return busy[place(i, c)] })
	}
	want := candidates[0].Devices()
	got, err := plan.Target(w.board, now, want, inUse)
	if err != nil {
		t.Errorf("from %s: %s is feasible: %v", text(now), key(want), err)
		return
	}
	if why := legal(w.board, got) + legalCompute(w.board, got); why != "" || !equal(got.Devices(), want) {
		t.Errorf("from %s: %s became %s: %s", text(now), key(want), text(got), why)
		return
	}
	cost := damage(now, got, inUse)
	for _, l := range candidates {
		less := slices.Compare(damage(now, l, inUse), cost)
		if less < 0 || less == 0 && slices.Compare(w.capacity(l), w.capacity(got)) > 0 {
			t.Errorf("from %s: %s became %s, which destroys %v and leaves %v; %s destroys %v and leaves %v",
				text(now), key(want), text(got), cost, w.capacity(got), text(l), damage(now, l, inUse), w.capacity(l))
			return
		}
	}
	follow(t, w.board, now, got)
	// A rollback goes to a layout that was not planned.
	follow(t, w.board, now, w.all[rng.IntN(len(w.all))])
}

// capacity remembers what it has computed.
func (w *world) capacity(l mig.Layout) []int {
	whole := slices.Clone(l)
	for n := range whole {
		whole[n].Compute = nil
	}
	k := text(whole)
	if w.free[k] == nil {
		w.free[k] = capacity(w.board, l)
	}
	return w.free[k]
}

func place(i mig.Instance, c mig.Compute) string { return fmt.Sprint(i.Placement, c.Placement) }

func TestTarget(t *testing.T) {
	for name, c := range map[string]struct {
		product, now, want, target string
		busy                       string
	}{
		"parts share an instance until it is full": {
			product: "a100-80", want: "4*1c.3g.40gb", target: "3g.40gb@0[1c@0] 3g.40gb@4[1c@0,1c@1,1c@2]",
		},
		"parts of two sizes share an instance": {
			product: "a100-80", want: "2c.4g.40gb 2*1c.4g.40gb 3g.40gb", target: "4g.40gb@0[2c@0,1c@2,1c@3] 3g.40gb@4",
		},
		"parts do not share with a whole one": {
			product: "a100-80", want: "2*1c.2g.20gb 2g.20gb", target: "2g.20gb@0[1c@0,1c@1] 2g.20gb@2",
		},
		"parts that fit into fewer instances in another order": {
			product: "a100-80", want: "2*2c.3g.40gb 2*1c.3g.40gb", target: "3g.40gb@0[2c@0,1c@2] 3g.40gb@4[2c@0,1c@2]",
		},
		"an instance is kept when only its compute instances differ": {
			product: "a100-80", now: "3g.40gb@0 1g.10gb@6", want: "3*1c.3g.40gb 1g.10gb", target: "3g.40gb@0[1c@0,1c@1,1c@2] 1g.10gb@6",
		},
		"parts in two instances stay there": {
			product: "a100-80", now: "3g.40gb@0[1c@1] 3g.40gb@4[1c@0]", want: "3*1c.3g.40gb", target: "3g.40gb@0[1c@1] 3g.40gb@4[1c@0,1c@1]",
		},
		"what leaves room for a large one stays": {
			product: "a100-80", now: "1g.10gb@0 1g.10gb@3 1g.10gb@5", want: "2*1g.10gb", target: "1g.10gb@0 1g.10gb@3",
		},
		"the instance in use stays": {
			product: "a100-80", now: "1g.10gb@0 1g.10gb@3 1g.10gb@5", busy: "0", want: "1g.10gb", target: "1g.10gb@0",
		},
		"an instance in use moves only if it has to": {
			product: "a100-80", now: "1g.10gb@0", busy: "0", want: "1g.10gb 3g.40gb", target: "1g.10gb@0 3g.40gb@4",
		},
		"an instance in use in the way of the only place": {
			product: "a100-80", now: "1g.10gb@0", busy: "0", want: "1g.10gb 4g.40gb", target: "4g.40gb@0 1g.10gb@6",
		},
		"one in use is worth more than two that are not": {
			product: "a100-80", now: "2g.20gb@0 1g.10gb@4 1g.10gb@5", busy: "0", want: "2g.20gb 3g.40gb", target: "2g.20gb@0 3g.40gb@4",
		},
		"a GPU instance without compute instances is used": {
			product: "a100-80", now: "3g.40gb@0[]", want: "3g.40gb", target: "3g.40gb@0",
		},
		"a GPU instance without compute instances is destroyed": {
			product: "a100-80", now: "3g.40gb@0[] 1g.10gb@5", want: "1g.10gb", target: "1g.10gb@5",
		},
		"nothing is desired": {product: "a30", now: "1g.6gb@0 2g.12gb@2", want: "", target: ""},
		"all media engines": {
			product: "rtx-pro-6000", now: "1g.24gb@3", want: "2g.48gb+me.all 1g.24gb-me", target: "2g.48gb+me.all@2 1g.24gb-me@1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := board(t, c.product)
			now, want := layout(t, b, c.now), devices(t, c.want)
			inUse := func(i mig.Instance) bool { return c.busy != "" && i.Placement.Start == number(c.busy) }
			got, err := plan.Target(b, now, want, inUse)
			if target := text(layout(t, b, c.target)); err != nil || text(got) != target {
				t.Fatalf("Target() = %s, %v, want %s", text(got), err, target)
			}
			for _, i := range got {
				if at := slices.IndexFunc(now, i.Same); at >= 0 && i.ID != now[at].ID || at < 0 && i.ID != 0 {
					t.Errorf("%s has the ID %d", i.Profile, i.ID)
				}
			}
			follow(t, b, now, got)
		})
	}
}

// A layout that has the devices stays, even where the table has other places for them.
func TestTargetIsThere(t *testing.T) {
	b := board(t, "a30")
	now := layout(t, b, "1g.6gb@0 2g.12gb@2")
	now[1].Placement.Start = 1
	got, err := plan.Target(b, now, devices(t, "1g.6gb 2g.12gb"), nil)
	if err != nil || !got.Equal(now) || len(plan.Steps(b, now, got)) != 0 {
		t.Errorf("Target() = %s, %v, want what is there", text(got), err)
	}
}

func TestTargetRejectsNegative(t *testing.T) {
	if _, err := plan.Target(board(t, "a30"), nil, map[gpu.Profile]int{{ComputeSlices: 1, GPUSlices: 1, GB: 6}: -1}, nil); err == nil {
		t.Error("a negative number of devices is accepted")
	}
}

// A GPU instance has at most as many compute instances of a profile as the driver says, even
// if there are more places.
func TestTargetComputeMax(t *testing.T) {
	b := board(t, "a100-80")
	b.Profiles[2].Compute[0].Max = 2
	got, err := plan.Target(b, nil, devices(t, "4*1c.3g.40gb"), nil)
	if want := "3g.40gb@0[1c@0,1c@1] 3g.40gb@4[1c@0,1c@1]"; err != nil || text(got) != want {
		t.Errorf("Target() = %s, %v, want %s", text(got), err, want)
	}
	if _, err := plan.Target(b, nil, devices(t, "5*1c.3g.40gb"), nil); err == nil {
		t.Error("five are accepted")
	}
}
