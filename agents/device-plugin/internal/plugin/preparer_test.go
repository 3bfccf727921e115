package plugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// files is a Preparer whose files can be changed.
type files struct {
	t    *testing.T
	path string

	mu       sync.Mutex
	outdated bool
	prepared inventory.Prepared
	err      error
}

func newFiles(t *testing.T, prepared inventory.Prepared) *files {
	f := &files{t: t, path: filepath.Join(t.TempDir(), "file"), prepared: prepared}
	f.write()
	return f
}

func (f *files) write() {
	f.t.Helper()
	assert.NilError(f.t, os.WriteFile(f.path, nil, 0o600))
}

func (f *files) change(p inventory.Prepared, err error) {
	f.t.Helper()
	f.mu.Lock()
	f.outdated, f.prepared, f.err = true, p, err
	f.mu.Unlock()
	f.write()
}

func (f *files) Watched() []string { return []string{f.path} }

func (f *files) Scan(config.Config) func(*gpu.Node) (inventory.Prepared, error) {
	return func(*gpu.Node) (inventory.Prepared, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.outdated = false
		return f.prepared, f.err
	}
}

func (f *files) Outdated() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outdated
}

// lacks is the result while GPU i has no device node.
func lacks(i int) inventory.Prepared {
	return inventory.Prepared{Unresolved: map[gpu.UUID]string{gpu.UUID(id(i)): "device node is missing"}}
}

func TestDeviceThatCannotBeGiven(t *testing.T) {
	f := newFiles(t, lacks(1))
	r := newRig(t, 3, func(c *inventory.Config) { c.Preparer = f })
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, bad, ok)
	r.watched(t)
	r.source.PostXID(gpu.UUID(id(2)), 79)
	r.healths(t, ok, bad, bad)
}

func TestMIGDeviceThatCannotBeGiven(t *testing.T) {
	n := gputest.Partition(gputest.Node(gputest.A100, 1), 0, "1g.5gb", "1g.5gb")
	f := newFiles(t, inventory.Prepared{Unresolved: map[gpu.UUID]string{n.GPUs[0].MIG.Devices[1].UUID: "device node is missing"}})
	r := newRig(t, 1, func(c *inventory.Config) {
		c.Preparer = f
		c.Config.MIGStrategy = config.MIGStrategySingle
	})
	r.source.SetNode(n)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, bad)
}

// A change of files takes effect without a call of the driver.
func TestFilesThatChange(t *testing.T) {
	f := newFiles(t, inventory.Prepared{})
	r := newRig(t, 2, func(c *inventory.Config) { c.Preparer = f })
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.watched(t)
	before := r.source.Calls().Snapshot
	f.change(lacks(0), nil)
	r.healths(t, bad, ok)
	f.change(inventory.Prepared{}, nil)
	r.healths(t, ok, ok)
	if n := r.source.Calls().Snapshot - before; n > 0 {
		t.Errorf("the driver was read %d times, want none", n)
	}
}

// What was advertised stays while the files are incomplete, and is prepared again
// once they are complete.
func TestFilesThatGoAndReturn(t *testing.T) {
	f := newFiles(t, inventory.Prepared{})
	r := newRig(t, 1, func(c *inventory.Config) { c.Preparer = f })
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok)
	r.watched(t)
	f.change(inventory.Prepared{}, errors.New("libcuda.so.1 not found"))
	agenttest.Poll(t, "the failure", func() bool { return !f.Outdated() })
	r.healths(t, ok)
	before := r.source.Calls().Snapshot
	f.change(lacks(0), nil)
	r.changes <- struct{}{}
	r.healths(t, bad)
	if n := r.source.Calls().Snapshot - before; n == 0 {
		t.Error("the driver was not read after a change on the node")
	}
}
