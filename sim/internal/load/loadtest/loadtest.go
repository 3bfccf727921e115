// Package loadtest has simulated nodes for the tests of loads.
package loadtest

import (
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
	"outrigger.dev/sim/internal/state"
)

// Node is a node whose folder has only its state.
type Node struct {
	testing.TB

	// Root is the folder.
	Root  string
	State *state.State
}

// New returns a node. It is closed when the test ends.
func New(t testing.TB, model string, gpus int) Node {
	t.Helper()
	n := Node{TB: t, Root: t.TempDir()}
	s, err := state.Create(filepath.Join(n.Root, "state"), state.NewSpec(model, gpus))
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close()) })
	n.State = s
	return n
}

// GPU returns a GPU.
func (n Node) GPU(i int) state.GPU {
	n.Helper()
	return n.State.Show().GPUs[i]
}

// Divide partitions GPU 0 into MIG devices, and returns their UUIDs.
func (n Node) Divide(names ...string) (uuids []string) {
	n.Helper()
	_, err := n.State.SetMIGMode(0, true)
	assert.NilError(n, err)
	board, err := n.State.Board(0)
	assert.NilError(n, err)
	for _, name := range names {
		profile, part, err := board.Find(name)
		assert.NilError(n, err)
		gi, err := n.State.CreateGPUInstance(0, profile, state.Anywhere)
		assert.NilError(n, err)
		ci, err := n.State.CreateComputeInstance(0, gi, part, state.Anywhere)
		assert.NilError(n, err)
		uuids = append(uuids, ci.UUID)
	}
	return uuids
}

// Show makes the GPUs show loads at a time in seconds.
func (n Node) Show(second int64, loads ...load.Load) {
	n.Helper()
	assert.NilError(n, load.Apply(n.Root, time.Unix(second, 0), func([]load.Load) []load.Load { return loads }))
}

// Constant returns a use without a range.
func Constant(utilization uint32, memory uint64) load.Use {
	return load.Use{Utilization: scenario.Range{Low: utilization, High: utilization}, Memory: memory}
}
