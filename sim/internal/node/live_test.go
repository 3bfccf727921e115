package node_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/machinetest"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// tree is all that programs can see of a node.
func tree(t *testing.T, n *node.Node) string {
	t.Helper()
	return listing(t, n.Root()) + read(t, filepath.Join(n.Root(), "proc/devices"))
}

func setDriver(t *testing.T, n *node.Node, loaded bool) {
	t.Helper()
	assert.NilError(t, n.SetDriver(loaded))
	if got := n.State().Show().Driver.Loaded; got != loaded {
		t.Fatalf("driver loaded: got %t, want %t", got, loaded)
	}
}

func TestDriverComesAndGoes(t *testing.T) {
	cfg := config(t, "a100-40", 2)
	cfg.Spec.IMEXChannels = 2
	on := create(t, cfg)
	cfg = config(t, "a100-40", 2)
	cfg.Spec.IMEXChannels = 2
	cfg.Spec.DriverOff = true
	off := create(t, cfg)
	treeOn, treeOff := tree(t, on), tree(t, off)

	for _, gone := range []string{"dev/nvidia", "proc/driver/nvidia", "run/nvidia/driver/", "195", "/driver ->"} {
		if strings.Contains(treeOff, gone) {
			t.Errorf("a node without driver shows %q:\n%s", gone, treeOff)
		}
	}
	setDriver(t, off, true)
	if diff := cmp.Diff(treeOn, tree(t, off)); diff != "" {
		t.Errorf("loaded later differs from loaded at once (-want +got):\n%s", diff)
	}
	setDriver(t, on, false)
	if diff := cmp.Diff(treeOff, tree(t, on)); diff != "" {
		t.Errorf("unloaded differs from never loaded (-want +got):\n%s", diff)
	}
	setDriver(t, on, false) // again: nothing to do
}

// The file with the majors is mounted by itself, so it must stay the same.
func TestDriverKeepsInodeOfProcDevices(t *testing.T) {
	n := create(t, config(t, "l4", 1))
	path := filepath.Join(n.Root(), "proc/devices")
	before, err := os.Stat(path)
	assert.NilError(t, err)
	setDriver(t, n, false)
	after, err := os.Stat(path)
	assert.NilError(t, err)
	if !os.SameFile(before, after) {
		t.Error("proc/devices is another file after a change")
	}
}

// A load that was killed half-way must not stand in the way of the next one.
func TestDriverLoadsOverRemains(t *testing.T) {
	cfg := config(t, "l4", 1)
	want := tree(t, create(t, cfg))
	cfg = config(t, "l4", 1)
	cfg.Spec.DriverOff = true
	n := create(t, cfg)
	for _, dir := range []string{"proc/driver/nvidia/gpus", "dev/nvidia-caps", "run/nvidia/driver/usr"} {
		assert.NilError(t, os.MkdirAll(filepath.Join(n.Root(), dir, "old"), 0o755))
	}
	setDriver(t, n, true)
	if diff := cmp.Diff(want, tree(t, n)); diff != "" {
		t.Errorf("tree after load (-want +got):\n%s", diff)
	}
}

func TestDriverThatCannotLoadLeavesNothing(t *testing.T) {
	cfg := config(t, "l4", 1)
	cfg.Spec.DriverOff = true
	n := create(t, cfg)
	// Device nodes come last; they find no folder.
	dev := filepath.Join(n.Root(), "dev")
	assert.NilError(t, os.Rename(dev, dev+".gone"))
	write(t, dev, "in the way")
	before := tree(t, n)
	if err := n.SetDriver(true); err == nil {
		t.Error("the driver loads without /dev")
	}
	if diff := cmp.Diff(before, tree(t, n)); diff != "" {
		t.Errorf("half loaded (-before +after):\n%s", diff)
	}
	if n.State().Show().Driver.Loaded {
		t.Error("the state says the driver is loaded")
	}
}

func TestPlugAndUnplug(t *testing.T) {
	cases := map[string]struct {
		driverOff bool
		want      []string
	}{
		"with the driver loaded": {false, []string{
			"dev/nvidia2", "sys/bus/pci/devices/BUS/vendor", "sys/bus/pci/devices/BUS/driver",
			"proc/driver/nvidia/gpus/BUS/information", "proc/driver/nvidia/capabilities/gpu2/mig",
		}},
		"without driver": {true, []string{"sys/bus/pci/devices/BUS/vendor"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, "h100-80", 2)
			cfg.Spec.DriverOff = tc.driverOff
			n := create(t, cfg)
			before := tree(t, n)
			g, err := n.Plug(state.GPUSpec{Model: "h100-80"})
			assert.NilError(t, err)
			after := tree(t, n)
			for line := range strings.Lines(before) {
				if !strings.Contains(after, line) {
					t.Errorf("plugging took away: %s", line)
				}
			}
			var missing []string
			for _, path := range tc.want {
				path = strings.ReplaceAll(path, "BUS", g.BusID)
				if _, err := os.Lstat(filepath.Join(n.Root(), path)); err != nil {
					missing = append(missing, path)
				}
			}
			if len(missing) > 0 {
				t.Errorf("missing after plug: %v", missing)
			}
			if gone, err := n.Unplug(g.UUID); err != nil || gone.UUID != g.UUID {
				t.Fatalf("unplug %s: got %s, %v", g.UUID, gone.UUID, err)
			}
			if diff := cmp.Diff(before, tree(t, n)); diff != "" {
				t.Errorf("tree after plug and unplug (-before +after):\n%s", diff)
			}
		})
	}
}

func TestPlugThatFailsLeavesNothing(t *testing.T) {
	n := create(t, config(t, "l4", 1))
	gpus := filepath.Join(n.Root(), "proc/driver/nvidia/gpus")
	assert.NilError(t, os.Rename(gpus, gpus+".gone"))
	write(t, gpus, "in the way")
	before := tree(t, n)
	if _, err := n.Plug(state.GPUSpec{Model: "l4"}); err == nil {
		t.Error("plugged without a place in procfs")
	}
	if diff := cmp.Diff(before, tree(t, n)); diff != "" {
		t.Errorf("half plugged (-before +after):\n%s", diff)
	}
	if got := len(n.State().Show().GPUs); got != 1 {
		t.Errorf("got %d GPUs, want 1", got)
	}
}

func TestUnplugWhatIsNotThere(t *testing.T) {
	n := create(t, config(t, "l4", 1))
	before := tree(t, n)
	if _, err := n.Unplug("7"); !errors.Is(err, state.ErrNoGPU) {
		t.Errorf("got error %v, want %v", err, state.ErrNoGPU)
	}
	if diff := cmp.Diff(before, tree(t, n)); diff != "" {
		t.Errorf("tree (-before +after):\n%s", diff)
	}
}

func TestNUMANodeShowsInSysfs(t *testing.T) {
	n := create(t, config(t, "l4", 1))
	g := n.State().Show().GPUs[0]
	assert.NilError(t, n.SetField(g.BusID, "numa-node", "-1"))
	if got := read(t, filepath.Join(n.Root(), "sys/bus/pci/devices", g.BusID, "numa_node")); got != "-1\n" {
		t.Errorf("numa_node: got %q, want -1", got)
	}
}

// TestMountLooksAtItsOwnThread has a thread with another mount namespace than the process: the thread mounts in its own.
func TestMountLooksAtItsOwnThread(t *testing.T) {
	n := create(t, config(t, "l4", 1))
	machinetest.New(t).Do(func() {
		assert.Check(t, n.Mount(t.Context(), "/run/nvidia/driver"))
		_, err := os.Stat("/proc/driver/nvidia")
		assert.Check(t, err)
	})
}

func TestMountRejectsTheMachinesNamespace(t *testing.T) {
	n := create(t, config(t, "l4", 1))
	err := n.Mount(t.Context(), node.HostRoot)
	assert.ErrorContains(t, err, "machine's own mount namespace")
	if _, err := os.Stat("/proc/driver/nvidia"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the machine shows the node: %v", err)
	}
}
