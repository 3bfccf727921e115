package state_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestNoSequenceOfChangesExceedsTheBoard(t *testing.T) {
	const sequences, steps = 20, 150
	for _, board := range boards(t) {
		t.Run(board.Model, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(sequences) {
				s, _ := divided(t, board.Model)
				p := &player{t: t, rand: rand.New(rand.NewPCG(seed, 1)), s: s, board: board, log: []string{fmt.Sprint("seed ", seed)}}
				for range steps {
					p.step()
				}
				p.clear()
				setMode(t, s, true)
				for _, profile := range board.Profiles {
					if got, err := s.Capacity(0, profile); err != nil || got != profile.Max {
						t.Errorf("seed %d: %d of %s fit on the empty GPU (%v), want %d", seed, got, profile.Name, err, profile.Max)
					}
				}
			}
		})
	}
}

// Several programs divide one GPU at a time, each through its own mapping.
func TestManyProgramsDivideOneGPU(t *testing.T) {
	const programs, steps = 4, 300
	shared, board := divided(t, "h100-80")
	var writers sync.WaitGroup
	done := make(chan struct{})
	for seed := range uint64(programs) {
		s, err := state.Open(shared.Path())
		assert.NilError(t, err)
		t.Cleanup(func() { s.Close() })
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, 2))
			for range steps {
				disturb(t, s, board, r)
			}
		})
	}
	go func() {
		writers.Wait()
		close(done)
	}()
	for reads := 0; ; reads++ {
		mig := readMIG(t, shared)
		if found := faults(board, mig); len(found) > 0 {
			t.Fatalf("read %d: %v in %+v", reads, found, mig)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// disturb makes or ends an instance; that another program was quicker is no
// fault.
func disturb(t *testing.T, s *state.State, board state.Board, r *rand.Rand) {
	mig, err := s.MIG(0)
	if err == nil && len(mig.GPUInstances) > 0 && r.IntN(2) == 0 {
		gi := mig.GPUInstances[r.IntN(len(mig.GPUInstances))]
		for _, ci := range gi.ComputeInstances {
			err = errors.Join(err, s.DestroyComputeInstance(0, ci))
		}
		err = errors.Join(err, s.DestroyGPUInstance(0, gi))
	} else if err == nil {
		profile := board.Profiles[r.IntN(len(board.Profiles))]
		var gi state.GPUInstance
		if gi, err = s.CreateGPUInstance(0, profile, state.Anywhere); err == nil {
			_, err = s.CreateComputeInstance(0, gi, whole(profile), state.Anywhere)
		}
	}
	if err != nil && !errors.Is(err, state.ErrNoRoom) && !errors.Is(err, state.ErrNoInstance) && !errors.Is(err, state.ErrInUse) {
		t.Error(err)
	}
}
