package state_test

import (
	"fmt"
	"slices"
	"testing"

	"outrigger.dev/sim/internal/state"
)

// divided returns a node of one GPU in MIG mode, and what it can be divided into.
func divided(t *testing.T, model string) (*state.State, state.Board) {
	t.Helper()
	board, err := state.LookupBoard(model)
	if err != nil {
		t.Fatal(err)
	}
	s := create(t, state.NewSpec(model, 1))
	setMode(t, s, true)
	return s, board
}

// setMode switches the mode and resets the GPU if that needs it.
func setMode(t *testing.T, s *state.State, on bool) {
	t.Helper()
	activation, err := s.SetMIGMode(0, on)
	if err != nil {
		t.Fatal(err)
	}
	if activation != state.ModeActive {
		reset(t, s)
	}
	if got := readMIG(t, s); got.Enabled != on || got.Pending != on {
		t.Fatalf("mode: got %+v, want %t", got, on)
	}
}

func reset(t *testing.T, s *state.State) {
	t.Helper()
	if err := s.BeginReset(0); err != nil {
		t.Fatal(err)
	}
	if err := s.EndReset(0); err != nil {
		t.Fatal(err)
	}
}

func readMIG(t *testing.T, s *state.State) state.MIG {
	t.Helper()
	mig, err := s.MIG(0)
	if err != nil {
		t.Fatal(err)
	}
	return mig
}

// find returns the kinds of instance of a name.
func find(t *testing.T, board state.Board, name string) (state.GIProfile, state.CIProfile) {
	t.Helper()
	gi, ci, err := board.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return gi, ci
}

// place makes a GPU instance.
func place(t *testing.T, s *state.State, profile state.GIProfile, start int) state.GPUInstance {
	t.Helper()
	gi, err := s.CreateGPUInstance(0, profile, start)
	if err != nil {
		t.Fatal(err)
	}
	return gi
}

// faults tells what of a GPU's instances no board allows. It knows the rules
// by itself: units taken twice, too many slices, too many of a kind, more than
// one with the media engines, names used twice.
func faults(board state.Board, mig state.MIG) []string {
	var found []string
	complain := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	unique := func(kind string, name any) {
		key := fmt.Sprint(kind, " ", name)
		if seen[key] {
			complain("%s twice", key)
		}
		seen[key] = true
	}
	slicesUsed, media, devices := 0, 0, 0
	var sum state.GIProfile
	kinds := map[string]int{}
	if !mig.Enabled && len(mig.GPUInstances) > 0 {
		complain("instances without the mode")
	}
	for _, gi := range mig.GPUInstances {
		profile, _, err := board.Find(gi.Profile)
		if err != nil {
			complain("%v", err)
			continue
		}
		for unit := gi.Start; unit < gi.Start+gi.Size; unit++ {
			unique("memory slice", unit)
			if unit >= board.MemorySlices {
				complain("memory slice %d of %d", unit, board.MemorySlices)
			}
		}
		if !slices.Contains(profile.Starts, gi.Start) || gi.Size != profile.Size {
			complain("%s at %d:%d", gi.Profile, gi.Start, gi.Size)
		}
		unique("GPU instance", gi.ID)
		unique("minor", gi.Minor)
		slicesUsed += profile.Slices
		if kinds[gi.Profile]++; kinds[gi.Profile] > profile.Max {
			complain("%d of %s, at most %d", kinds[gi.Profile], gi.Profile, profile.Max)
		}
		if profile.Media {
			media++
		}
		add(&sum, profile)
		ciKinds := map[string]int{}
		for _, ci := range gi.ComputeInstances {
			if ci.Index != devices {
				complain("MIG device %d in place %d", ci.Index, devices)
			}
			devices++
			unique("UUID", ci.UUID)
			unique("minor", ci.Minor)
			unique("compute instance", fmt.Sprint(gi.ID, "/", ci.ID))
			for unit := ci.Start; unit < ci.Start+ci.Size; unit++ {
				unique("compute slice", fmt.Sprint(gi.ID, "/", unit))
				if unit >= profile.Slices {
					complain("compute slice %d of %d", unit, profile.Slices)
				}
			}
			ciKinds[ci.Profile]++
			i := slices.IndexFunc(profile.Compute, func(c state.CIProfile) bool { return c.Name == ci.Profile })
			if i < 0 || ciKinds[ci.Profile] > profile.Compute[i].Max {
				complain("%d of %s in %s", ciKinds[ci.Profile], ci.Profile, gi.Profile)
			}
		}
	}
	if slicesUsed > board.ComputeSlices || media > 1 || devices > board.ComputeSlices {
		complain("%d compute slices, %d with media engines, %d devices", slicesUsed, media, devices)
	}
	return append(found, excess(board, sum)...)
}

// add adds up what instances take.
func add(sum *state.GIProfile, p state.GIProfile) {
	sum.MemoryMiB += p.MemoryMiB
	sum.SMs += p.SMs
	sum.Engines.Copy += p.Engines.Copy
	sum.Engines.Decoder += p.Engines.Decoder
	sum.Engines.Encoder += p.Engines.Encoder
	sum.Engines.JPEG += p.Engines.JPEG
	sum.Engines.OFA += p.Engines.OFA
}

// excess tells what instances have in sum that the largest one, which takes
// the whole board, has not.
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
		if pair[0] > pair[1] {
			found = append(found, fmt.Sprintf("%d %s of %d", pair[0], name, pair[1]))
		}
	}
	return found
}
