package reader_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/nvml/reader"
)

// pins returns the indices of an agent of the node.
func (s *sim) pins() *index.Pins {
	s.t.Helper()
	run := filepath.Join(s.root, "run", "nvidia")
	assert.NilError(s.t, os.MkdirAll(run, 0o755))
	return index.New(index.Config{Contract: contract.Dir{Root: run}, Writer: "agent"})
}

// After a GPU has left the bus, NVML's list is shorter. The others keep their indices, for an agent
// that was running and for one that starts now, and their links lead to the same GPUs.
func TestGPUsKeepTheirIndices(t *testing.T) {
	s := newSim(t, "--gpus=4", "--model=h100-80")
	running := s.pinned(s.pins())
	before := snapshot(t, running)
	s.run("unplug", "0")
	check := func(what string, src *reader.Reader) {
		t.Helper()
		n := snapshot(t, src)
		if len(n.GPUs) != 3 {
			t.Fatalf("%s sees %d GPUs", what, len(n.GPUs))
		}
		for _, g := range n.GPUs {
			if was := before.ByUUID(g.UUID); was == nil || was.Index != g.Index || was.Minor != g.Minor || !g.Shifted {
				t.Errorf("%s: GPU %s has index %d, minor %d, shifted %v; before %+v", what, g.UUID, g.Index, g.Minor, g.Shifted, was)
			}
		}
		links, err := src.Links(t.Context(), n)
		if err != nil || len(links) != 3 || links[0].A != 1 || links[0].B != 2 || links[2].B != 3 {
			t.Errorf("%s: links %+v, %v", what, links, err)
		}
		closeSource(t, src) // the variables of go-nvml are for one library at a time
		if links, err = src.Links(t.Context(), n); err != nil || len(links) != 3 {
			t.Errorf("%s: links of a snapshot before NVML was initialized: %+v, %v", what, links, err)
		}
		closeSource(t, src)
	}
	check("an agent that was running", running)
	check("an agent that has just started", s.pinned(s.pins()))
	s.run("plug")
	if n := snapshot(t, running); len(n.GPUs) != 4 || n.GPUs[3].Index != 4 || before.ByUUID(n.GPUs[3].UUID) != nil {
		t.Errorf("after a GPU was plugged in: %+v", n.GPUs)
	}
	closeSource(t, running)
}
