package state_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/state"
)

// boards returns what is known of all products that have a MIG mode.
func boards(t *testing.T) []state.Board {
	t.Helper()
	var boards []state.Board
	for _, name := range model.Names() {
		board, err := create(t, state.NewSpec(name, 1)).Board(0)
		if errors.Is(err, state.ErrIndivisible) {
			continue
		}
		assert.NilError(t, err)
		boards = append(boards, board)
	}
	return boards
}

// whole returns the compute instance that takes a whole GPU instance.
func whole(g state.GIProfile) state.CIProfile {
	return g.Compute[slices.IndexFunc(g.Compute, func(c state.CIProfile) bool { return c.Slices == g.Slices })]
}

// divided returns a node of one GPU in MIG mode, and what it can be divided into.
func divided(t *testing.T, model string) (*state.State, state.Board) {
	t.Helper()
	s := create(t, state.NewSpec(model, 1))
	board, err := s.Board(0)
	assert.NilError(t, err)
	setMode(t, s, true)
	return s, board
}

// setMode switches the mode and resets the GPU if that needs it.
func setMode(t *testing.T, s *state.State, on bool) {
	t.Helper()
	activation, err := s.SetMIGMode(0, on)
	assert.NilError(t, err)
	if activation != state.ModeActive {
		reset(t, s)
	}
	if got := readMIG(t, s); got.Enabled != on || got.Pending != on {
		t.Fatalf("mode: got %+v, want %t", got, on)
	}
}

func reset(t *testing.T, s *state.State) {
	t.Helper()
	assert.NilError(t, s.BeginReset(0))
	assert.NilError(t, s.EndReset(0))
}

func readMIG(t *testing.T, s *state.State) state.MIG {
	t.Helper()
	mig, err := s.MIG(0)
	assert.NilError(t, err)
	return mig
}

// find returns the kinds of instance of a name.
func find(t *testing.T, board state.Board, name string) (state.GIProfile, state.CIProfile) {
	t.Helper()
	gi, ci, err := board.Find(name)
	assert.NilError(t, err)
	return gi, ci
}

// place makes a GPU instance.
func place(t *testing.T, s *state.State, profile state.GIProfile, start int) state.GPUInstance {
	t.Helper()
	gi, err := s.CreateGPUInstance(0, profile, start)
	assert.NilError(t, err)
	return gi
}

// faults returns what of a GPU's instances no board allows. It knows the rules
// by itself: units taken twice, too many slices, too many of a kind, more than
// one with the media engines, names used twice.
func faults(board state.Board, mig state.MIG) []string {
	a := audit{board: board, seen: map[string]int{}}
	if !mig.Enabled && len(mig.GPUInstances) > 0 {
		a.complain("instances without the mode")
	}
	for _, gi := range mig.GPUInstances {
		a.gpuInstance(gi)
	}
	if a.sum.Slices > board.ComputeSlices || a.seen["media"] > 1 || a.devices > board.ComputeSlices {
		a.complain("%d compute slices, %d with media engines, %d devices", a.sum.Slices, a.seen["media"], a.devices)
	}
	return append(a.found, excess(board, a.sum)...)
}

// audit checks the instances of a GPU one by one.
type audit struct {
	board   state.Board
	seen    map[string]int // how often what was met
	sum     state.GIProfile
	devices int
	found   []string
}

func (a *audit) complain(format string, args ...any) {
	a.found = append(a.found, fmt.Sprintf(format, args...))
}

// atMost counts a thing, of which there may be that many.
func (a *audit) atMost(most int, kind string, name any) {
	key := fmt.Sprint(kind, " ", name)
	if a.seen[key]++; a.seen[key] > most {
		a.complain("%d × %s, at most %d", a.seen[key], key, most)
	}
}

func (a *audit) gpuInstance(gi state.GPUInstance) {
	profile, _, err := a.board.Find(gi.Profile)
	if err != nil {
		a.complain("%v", err)
		return
	}
	for unit := gi.Start; unit < gi.Start+gi.Size; unit++ {
		a.atMost(1, "memory slice", unit)
	}
	if !slices.Contains(profile.Starts, gi.Start) || gi.Size != profile.Size || gi.Start+gi.Size > a.board.MemorySlices {
		a.complain("%s at %d:%d", gi.Profile, gi.Start, gi.Size)
	}
	a.atMost(1, "GPU instance", gi.ID)
	a.atMost(1, "minor", gi.Minor)
	a.atMost(profile.Max, "profile", gi.Profile)
	if profile.Media {
		a.seen["media"]++
	}
	add(&a.sum, profile)
	for _, ci := range gi.ComputeInstances {
		a.computeInstance(gi, profile, ci)
	}
}

func (a *audit) computeInstance(gi state.GPUInstance, profile state.GIProfile, ci state.ComputeInstance) {
	if ci.Index != a.devices {
		a.complain("MIG device %d in place %d", ci.Index, a.devices)
	}
	a.devices++
	a.atMost(1, "UUID", ci.UUID)
	a.atMost(1, "minor", ci.Minor)
	a.atMost(1, "compute instance", fmt.Sprint(gi.ID, "/", ci.ID))
	for unit := ci.Start; unit < ci.Start+ci.Size; unit++ {
		a.atMost(1, "compute slice", fmt.Sprint(gi.ID, "/", unit))
	}
	i := slices.IndexFunc(profile.Compute, func(c state.CIProfile) bool { return c.Name == ci.Profile })
	if i < 0 || ci.Start+ci.Size > profile.Slices {
		a.complain("%s at %d:%d of %s", ci.Profile, ci.Start, ci.Size, gi.Profile)
		return
	}
	a.atMost(profile.Compute[i].Max, fmt.Sprint("profile in ", gi.ID), ci.Profile)
}

// add adds up what instances take.
func add(sum *state.GIProfile, p state.GIProfile) {
	sum.Slices += p.Slices
	sum.MemoryMiB += p.MemoryMiB
	sum.SMs += p.SMs
	sum.Engines.Copy += p.Engines.Copy
	sum.Engines.Decoder += p.Engines.Decoder
	sum.Engines.Encoder += p.Engines.Encoder
	sum.Engines.JPEG += p.Engines.JPEG
	sum.Engines.OFA += p.Engines.OFA
}

// excess returns what instances have in sum that the largest one, which takes
// the whole board, has not. The SMs of some boards are unknown.
func excess(board state.Board, sum state.GIProfile) []string {
	all := slices.MaxFunc(board.Profiles, func(a, b state.GIProfile) int { return a.Slices - b.Slices })
	var found []string
	for name, pair := range map[string][2]int{
		"MiB":             {sum.MemoryMiB, all.MemoryMiB},
		"copy engines":    {sum.Engines.Copy, all.Engines.Copy},
		"decoders":        {sum.Engines.Decoder, all.Engines.Decoder},
		"encoders":        {sum.Engines.Encoder, all.Engines.Encoder},
		"JPEG engines":    {sum.Engines.JPEG, all.Engines.JPEG},
		"OFA engines":     {sum.Engines.OFA, all.Engines.OFA},
		"multiprocessors": {sum.SMs, all.SMs},
	} {
		if known := name != "multiprocessors" || board.SMs > 0 && all.SMs > 0; known && pair[0] > pair[1] {
			found = append(found, fmt.Sprintf("%d %s of %d", pair[0], name, pair[1]))
		}
	}
	return found
}
