package plugin_test

import (
	"errors"
	"sync"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// files is a Preparer whose files can be changed.
type files struct {
	mu       sync.Mutex
	outdated bool
	prepared inventory.Prepared
	err      error
}

func (f *files) change(p inventory.Prepared, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outdated, f.prepared, f.err = true, p, err
}

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

// lacks is what is prepared while GPU i has no device node.
func lacks(i int) inventory.Prepared {
	return inventory.Prepared{Unresolved: map[gpu.UUID]string{gpu.UUID(id(i)): "device node is missing"}}
}

func TestDeviceThatCannotBeGiven(t *testing.T) {
	f := &files{prepared: lacks(1)}
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
	f := &files{prepared: inventory.Prepared{Unresolved: map[gpu.UUID]string{n.GPUs[0].MIG.Devices[1].UUID: "device node is missing"}}}
	r := newRig(t, 1, func(c *inventory.Config) {
		c.Preparer = f
		c.Config.MIGStrategy = config.MIGStrategySingle
	})
	r.source.SetNode(n)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, bad)
}

// A change of files is followed without a question to the driver.
func TestFilesThatChange(t *testing.T) {
	f := &files{}
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
		t.Errorf("the driver was asked %d times", n)
	}
}

// What was offered stays while the files are not whole, and is prepared again
// once they are.
func TestFilesThatGoAndReturn(t *testing.T) {
	f := &files{}
	r := newRig(t, 1, func(c *inventory.Config) { c.Preparer = f })
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok)
	r.watched(t)
	before := r.source.Calls().Snapshot
	f.change(inventory.Prepared{}, errors.New("libcuda.so.1 not found"))
	// A failure is looked into, with the driver.
	if err := r.source.WaitCalls(limit(t), func(c gputest.Calls) bool { return c.Snapshot > before }); err != nil {
		t.Fatal(err)
	}
	r.healths(t, ok)
	f.change(lacks(0), nil)
	r.changes <- struct{}{}
	r.healths(t, bad)
}
