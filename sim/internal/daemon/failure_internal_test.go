package daemon

import (
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
