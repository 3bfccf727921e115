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

	"outrigger.dev/sim/internal/node"
)

// remains puts what a process that was killed leaves into the folder root.
func remains(t *testing.T, root string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		assert.NilError(t, os.MkdirAll(filepath.Join(root, path, "inner"), 0o755))
	}
}

// beside lists the folder in which the node lies.
func beside(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(root))
	assert.NilError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRemainsOfAKilledCreateGoWithTheNextOne(t *testing.T) {
	cfg := config(t, "l4", 1)
	remains(t, filepath.Dir(cfg.Root), ".node-gpu-sim-1/dev", ".other-gpu-sim-1/dev")
	create(t, cfg)
	if diff := cmp.Diff([]string{".other-gpu-sim-1", "node"}, beside(t, cfg.Root)); diff != "" {
		t.Errorf("beside the node after create (-want +got):\n%s", diff)
	}
	remains(t, filepath.Dir(cfg.Root), ".node-gpu-sim-2/node")
	assert.NilError(t, node.Delete(cfg.Root))
	if diff := cmp.Diff([]string{".other-gpu-sim-1"}, beside(t, cfg.Root)); diff != "" {
		t.Errorf("after delete (-want +got):\n%s", diff)
	}
}

func TestOfTwoCreatesAtOnceOneSucceeds(t *testing.T) {
	needRoot(t)
	cfg := config(t, "l4", 1)
	results := make(chan error)
	for range 2 {
		go func() {
			n, err := node.Create(cfg)
			if err == nil {
				err = n.Close()
			}
			results <- err
		}()
	}
	first, second := <-results, <-results
	if (first == nil) == (second == nil) {
		t.Fatalf("got %v and %v, want one to succeed", first, second)
	}
	err := errors.Join(first, second)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "gpu-sim delete --root "+cfg.Root) || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("got error %v, want one line that names the fix", err)
	}
	if diff := cmp.Diff([]string{"node"}, beside(t, cfg.Root)); diff != "" {
		t.Errorf("beside the node (-want +got):\n%s", diff)
	}
}

func TestKilledChangesAreRepairedByTheNextOne(t *testing.T) {
	cases := map[string]struct {
		driverOff bool
		damage    func(t *testing.T, root string)
		change    func(n *node.Node) error
	}{
		"a load, by an unload": {
			true,
			func(t *testing.T, root string) {
				remains(t, root, "run/nvidia/driver/lib", "run/nvidia/driver/usr", "proc/driver/nvidia", "dev/nvidia-caps", "stage/new-1")
			},
			func(n *node.Node) error { return n.SetDriver(false) },
		},
		"a load that came as far as NVML, by a load": {
			false,
			func(t *testing.T, root string) {
				for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia0"} {
					assert.NilError(t, os.Remove(filepath.Join(root, "dev", name)))
				}
			},
			func(n *node.Node) error { return n.SetDriver(true) },
		},
		"a plug or unplug, by any change": {
			false,
			func(t *testing.T, root string) {
				remains(t, root, "sys/bus/pci/devices/0000:99:00.0", "proc/driver/nvidia/gpus/0000:99:00.0",
					"proc/driver/nvidia/capabilities/gpu9/mig", "stage/new-1", "stage/old-1")
				write(t, filepath.Join(root, "dev/nvidia9"), "")
			},
			func(n *node.Node) error { return n.SetField("0", "temperature", "50") },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, "a100-40", 1)
			cfg.Spec.DriverOff = tc.driverOff
			n := create(t, cfg)
			want := tree(t, n)
			tc.damage(t, n.Root())
			assert.NilError(t, tc.change(n))
			if diff := cmp.Diff(want, tree(t, n)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}
