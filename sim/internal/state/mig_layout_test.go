package state_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// spot is a place that a kind of GPU instance may take.
type spot struct {
	profile state.GIProfile
	start   int
}

// census counts the ways in which a GPU can be divided.
type census struct {
	// Layouts counts places, Multisets the kinds without their places; the
	// empty one is among them. Maximal ones are part of no larger one.
	Layouts, Maximal, Multisets, MaximalMultisets int
}

// enumerator walks all layouts by making and destroying instances. A part of a
// legal layout is legal, so adding spots in one order meets each layout once.
type enumerator struct {
	t      *testing.T
	s      *state.State
	board  state.Board
	spots  []spot
	kinds  []string
	all    map[string]bool // multisets
	census census
}

func (e *enumerator) walk(from int) {
	e.visit()
	for i := from; i < len(e.spots); i++ {
		gi, err := e.s.CreateGPUInstance(0, e.spots[i].profile, e.spots[i].start)
		if errors.Is(err, state.ErrNoRoom) {
			continue
		}
		assert.NilError(e.t, err)
		e.kinds = append(e.kinds, gi.Profile)
		e.walk(i + 1)
		e.kinds = e.kinds[:len(e.kinds)-1]
		assert.NilError(e.t, e.s.DestroyGPUInstance(0, gi))
	}
}

func (e *enumerator) visit() {
	if found := faults(e.board, readMIG(e.t, e.s)); len(found) > 0 {
		e.t.Fatalf("layout %v: %v", e.kinds, found)
	}
	full := true
	for _, sp := range e.spots {
		left, err := e.s.Capacity(0, sp.profile)
		assert.NilError(e.t, err)
		full = full && left == 0
	}
	e.census.Layouts++
	e.all[multiset(e.kinds...)] = true
	if full {
		e.census.Maximal++
	}
}

func multiset(kinds ...string) string {
	return strings.Join(slices.Sorted(slices.Values(kinds)), " ")
}

// maximal reports whether no kind can be added to a multiset, wherever the
// instances lie.
func (e *enumerator) maximal(kinds string) bool {
	for _, sp := range e.spots {
		if e.all[multiset(append(strings.Fields(kinds), sp.profile.Name)...)] {
			return false
		}
	}
	return true
}

func count(t *testing.T, model string, kinds func(state.GIProfile) bool) census {
	t.Helper()
	s, board := divided(t, model)
	e := &enumerator{t: t, s: s, board: board, all: map[string]bool{}}
	for _, profile := range board.Profiles {
		if kinds(profile) {
			for _, start := range profile.Starts {
				e.spots = append(e.spots, spot{profile, start})
			}
		}
	}
	e.walk(0)
	e.census.Multisets = len(e.all)
	for kinds := range e.all {
		if e.maximal(kinds) {
			e.census.MaximalMultisets++
		}
	}
	return e.census
}

// The numbers follow from the published placements and limits; 19 maximal
// layouts of the base profiles is the number that NVIDIA publishes itself. The
// two media profiles of the A30 exclude each other, because the board has one
// JPEG and one OFA engine; side by side there would be 84, 21, 22 and 9.
func TestABoardDividesInAsManyWaysAsPublished(t *testing.T) {
	const doubleMemory = 9 // NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2
	base := func(p state.GIProfile) bool { return !p.Media && p.Profile != doubleMemory }
	withDouble := func(p state.GIProfile) bool { return !p.Media }
	all := func(state.GIProfile) bool { return true }
	tests := map[string]struct {
		models []string
		kinds  func(state.GIProfile) bool
		want   census
	}{
		"seven slices, the base profiles":      {[]string{"a100-40"}, base, census{298, 19, 38, 12}},
		"seven slices with the double memory":  {[]string{"a100-40"}, withDouble, census{723, 78, 78, 28}},
		"seven slices, all profiles":           {[]string{"a100-40", "a100-80", "h100-80", "h200", "b200"}, all, census{2319, 239, 128, 44}},
		"four slices, the base profiles":       {[]string{"a30"}, base, census{26, 5, 10, 4}},
		"four slices with the media profiles":  {[]string{"a30"}, all, census{76, 17, 20, 8}},
		"seven slices, of the smallest a kind": {[]string{"h100-80"}, func(p state.GIProfile) bool { return p.Profile == 0 }, census{128, 1, 8, 1}},
	}
	for name, test := range tests {
		for _, model := range test.models {
			t.Run(name+", "+model, func(t *testing.T) {
				t.Parallel()
				if diff := cmp.Diff(test.want, count(t, model, test.kinds)); diff != "" {
					t.Errorf("ways (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Programs compute the name of a MIG device from its memory and that of the
// GPU, so the two columns of the table must agree.
func TestProfileNamesFollowFromTheirMemory(t *testing.T) {
	for _, board := range boards(t) {
		total := float64(board.MemoryMiB)
		for _, p := range board.Profiles {
			share := math.Ceil(float64(p.MemoryMiB)/total*8) / 8
			want := fmt.Sprintf("%dg.%dgb", p.Slices, int(math.Round(share*math.Ceil(total/1024))))
			attribute, ok := strings.CutPrefix(p.Name, want)
			if !ok || !slices.Contains([]string{"", "+me", "-me", "+gfx", "+me.all"}, attribute) || strings.HasPrefix(attribute, "+me") != p.Media {
				t.Errorf("%s: %s has %d MiB, which reads as %s", board.Model, p.Name, p.MemoryMiB, want)
			}
		}
	}
}

// Instances side by side must not have more than the GPU.
func TestFullBoardsStayWithinTheProduct(t *testing.T) {
	for _, board := range boards(t) {
		for _, p := range board.Profiles {
			if p.Max*p.MemoryMiB > board.MemoryMiB || board.SMs > 0 && p.Max*p.SMs > board.SMs || p.Max*p.Size > board.MemorySlices {
				t.Errorf("%s: %d × %s have %d MiB and %d SMs, more than there is", board.Model, p.Max, p.Name, p.Max*p.MemoryMiB, p.Max*p.SMs)
			}
			if p.Source == "" {
				t.Errorf("%s: %s does not say where its figures come from", board.Model, p.Name)
			}
			for _, c := range p.Compute {
				if c.Max*c.SMs > p.SMs || c.Max*c.Slices > p.Slices || len(c.Starts) != c.Max {
					t.Errorf("%s: %d × %s have %d SMs of %d", board.Model, c.Max, c.Name, c.Max*c.SMs, p.SMs)
				}
			}
		}
	}
}
