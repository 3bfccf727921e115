package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/state"
)

// own writes the data file of a model that the simulator does not know.
func own(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "model.yaml")
	data := "name: " + name + "\nproduct: NVIDIA My GPU\ncomputeCapability: \"9.0\"\nmemoryMiB: {total: 2048}\n" +
		"mig: {computeSlices: 2, memorySlices: 2, profiles: [{name: 1g.1gb, number: 0, id: 5, slices: 1, size: 1, starts: [0, 1], max: 2, memoryMiB: 1024}]}\n"
	assert.NilError(t, os.WriteFile(file, []byte(data), 0o600))
	return file
}

func plugged(t *testing.T, s *state.State, spec state.GPUSpec) state.GPU {
	t.Helper()
	slot, err := s.Plug(spec)
	assert.NilError(t, err)
	for _, g := range s.Show().GPUs {
		if g.Slot == slot {
			return g
		}
	}
	t.Fatalf("slot %d is empty", slot)
	return state.GPU{}
}

func TestPlugTakesTheModelOfTheNode(t *testing.T) {
	file := own(t, "my-gpu")
	for name, tc := range map[string]struct {
		spec state.Spec
		want string
	}{
		"a product":                        {state.NewSpec("h100", 1), "h100-80"},
		"a node without GPUs":              {state.NewSpec("b200", 0), "b200"},
		"no choice":                        {state.Spec{}, model.Default},
		"the first of several":             {state.Spec{GPUs: []state.GPUSpec{{Model: "l4"}, {Model: "h200"}}}, "l4"},
		"an own model whose file has gone": {state.NewSpec(file, 1), "my-gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			s := create(t, tc.spec)
			if tc.want == "my-gpu" {
				assert.NilError(t, os.Remove(file))
			}
			assert.Equal(t, plugged(t, s, state.GPUSpec{}).Model, tc.want)
		})
	}
}

// A node can have GPUs of several models. Each has the MIG profiles of its own model.
func TestNodeWithSeveralModels(t *testing.T) {
	s := create(t, state.NewSpec("h100-80", 1))
	mine := plugged(t, s, state.GPUSpec{Model: own(t, "my-gpu")})
	a30 := plugged(t, s, state.GPUSpec{Model: "a30"})
	for slot, want := range map[state.Slot]string{0: "1g.10gb", mine.Slot: "1g.1gb", a30.Slot: "1g.6gb"} {
		board, err := s.Board(slot)
		assert.NilError(t, err)
		assert.Equal(t, board.Profiles[0].Name, want)
	}
	assert.Equal(t, mine.Name, "NVIDIA My GPU")
	assert.Equal(t, mine.MemoryBytes, uint64(2048<<20))
	other, err := state.Open(s.Path())
	assert.NilError(t, err)
	defer other.Close()
	_, err = other.SetMIGMode(mine.Slot, true)
	assert.NilError(t, err)
	board, err := other.Board(mine.Slot)
	assert.NilError(t, err)
	for range 2 {
		_, err = other.CreateGPUInstance(mine.Slot, board.Profiles[0], state.Anywhere)
		assert.NilError(t, err)
	}
	_, err = other.CreateGPUInstance(mine.Slot, board.Profiles[0], state.Anywhere)
	assert.ErrorIs(t, err, state.ErrNoRoom)
}

// The same model takes one entry, however often it is plugged. The table is full after 16 models.
func TestModelsOfANodeAreLimited(t *testing.T) {
	const limit = 16
	s := create(t, state.NewSpec("l4", 0))
	for range limit + 1 {
		assert.NilError(t, s.Unplug(plugged(t, s, state.GPUSpec{Model: "t4"}).Slot))
	}
	for i := range limit - 2 {
		assert.NilError(t, s.Unplug(plugged(t, s, state.GPUSpec{Model: own(t, fmt.Sprint("my-", i))}).Slot))
	}
	_, err := s.Plug(state.GPUSpec{Model: own(t, "my-last")})
	assert.ErrorContains(t, err, "model my-last: the node has had 16 models, which is the limit; delete the node and create it again")
	assert.Equal(t, plugged(t, s, state.GPUSpec{Model: "t4"}).Model, "t4")
}

// A plug that fails adds no model.
func TestNextGPUAddsNoModel(t *testing.T) {
	s := create(t, state.NewSpec("l4", 1))
	for i := range 20 {
		g, err := s.NextGPU(state.GPUSpec{Model: own(t, fmt.Sprint("my-", i))})
		assert.NilError(t, err)
		assert.Equal(t, g.Model, fmt.Sprint("my-", i))
	}
}
