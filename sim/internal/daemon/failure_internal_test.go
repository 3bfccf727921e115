package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/pool"
)

// Containers have mounts of the node's files, which a failure must not cut off from the GPUs of a later success.
func TestAFailureKeepsTheFilesThatContainersHave(t *testing.T) {
	r := newRig(t).with("h100-80x2")
	assert.NilError(t, r.process())
	files := func() (all []os.FileInfo) {
		for _, name := range []string{"proc/driver", "proc/devices", "sys/bus/pci/devices"} {
			info, err := os.Stat(filepath.Join(r.cfg.Root, name))
			assert.NilError(t, err)
			all = append(all, info)
		}
		return all
	}
	before := files()
	r.labels = map[string]string{"role": "divided"}
	r.cfg.Pools = []pool.Pool{{NodeSelector: r.labels, Simulation: pool.Simulation{Model: "h100-80", GPUs: 1, MIG: []string{"7g.80gb", "1g.10gb"}}}}
	assert.ErrorContains(t, r.process(), "1g.10gb")
	r.has(0, "")
	r.cfg.Pools[0].MIG = []string{"7g.80gb"}
	assert.NilError(t, r.process())
	r.has(1, "H100")
	for i, after := range files() {
		assert.Check(t, os.SameFile(before[i], after), "%s is another file", after.Name())
	}
}

// A change of the values of a model makes other GPUs. A mistake in it has an Event, and keeps the GPUs.
func TestAnOwnModel(t *testing.T) {
	r := newRig(t).with("minex1")
	model := func(text string) {
		t.Helper()
		var err error
		r.cfg.Models, err = pool.ParseModels(`{"mine": ` + text + `}`)
		assert.NilError(t, err)
	}
	model(`{"base": "h100-80", "product": "NVIDIA Mine & Yours"}`)
	assert.NilError(t, r.process())
	r.has(1, "NVIDIA Mine & Yours")
	made := len(r.events)
	assert.NilError(t, r.process())
	assert.Equal(t, len(r.events), made, "the same GPUs were made again")
	model(`{"base": "h100-80", "product": "NVIDIA Mine 2"}`)
	assert.NilError(t, r.process())
	r.has(1, "NVIDIA Mine 2")
	model(`{"product": "NVIDIA Mine 3"}`)
	const want = "models.mine.memoryMiB: is missing"
	assert.ErrorContains(t, r.process(), want)
	r.has(1, "NVIDIA Mine 2")
	assert.ErrorContains(t, errors.New(r.events[len(r.events)-1].Message), want)
}
