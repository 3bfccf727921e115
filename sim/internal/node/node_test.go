package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// The models stand for each server, with and without MIG.
func TestCreateRendersEachServer(t *testing.T) {
	for _, model := range []string{"a100-40", "a30", "gb200", "h100-80", "l4"} {
		t.Run(model, func(t *testing.T) {
			n := create(t, config(t, model, 2))
			// The two driver roots show the same; once is enough to read.
			var rest, installed, contained strings.Builder
			for line := range strings.Lines(listing(t, n.Root())) {
				switch mode, path, _ := strings.Cut(line, " "); {
				case strings.HasPrefix(path, "run/nvidia/driver/"):
					contained.WriteString(mode + " " + strings.TrimPrefix(path, "run/nvidia/"))
				case strings.HasPrefix(path, "driver/"):
					installed.WriteString(line)
					fallthrough
				default:
					rest.WriteString(line)
				}
			}
			golden.Assert(t, rest.String(), model+"-tree.golden")
			if diff := cmp.Diff(installed.String(), contained.String()); diff != "" {
				t.Errorf("/run/nvidia/driver differs from the driver root (-want +got):\n%s", diff)
			}
		})
	}
}

// The texts that programs parse: one file after another.
func TestCreateWritesWhatTheKernelWrites(t *testing.T) {
	n := create(t, config(t, "h100-80", 1))
	var b strings.Builder
	for _, name := range []string{
		"proc/devices", "proc/driver/nvidia/version", "proc/driver/nvidia/params", "proc/driver/nvidia/registry",
		"proc/driver/nvidia/gpus/*/*", "proc/driver/nvidia/capabilities/mig/*", "proc/driver/nvidia/capabilities/fabric-imex-mgmt",
		"proc/driver/nvidia-caps/sys-minors", "proc/driver/nvidia-caps/nvlink-minors",
		"sys/bus/pci/devices/*/[^c]*", "sys/bus/pci/devices/*/class",
		"driver/etc/*/*/*", "driver/usr/share/*/*/*.json",
	} {
		paths, err := filepath.Glob(filepath.Join(n.Root(), name))
		if err != nil || len(paths) == 0 {
			t.Fatalf("find %s: %v, %v", name, paths, err)
		}
		for _, path := range paths {
			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			fmt.Fprintf(&b, "== %s\n%s", strings.TrimPrefix(path, n.Root()), read(t, path))
		}
	}
	golden.Assert(t, b.String(), "h100-80-text.golden")
}

func TestMIGMinorsAreTheDrivers(t *testing.T) {
	n := create(t, config(t, "a100-40", 1))
	lines := strings.Split(strings.TrimSuffix(read(t, filepath.Join(n.Root(), "proc/driver/nvidia-caps/mig-minors")), "\n"), "\n")
	have := map[string]bool{}
	for _, line := range lines {
		have[line] = true
	}
	for _, want := range []string{"config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4", "gpu6/gi11/ci6/access 919", "gpu31/gi14/ci7/access 4322"} {
		if !have[want] {
			t.Errorf("mig-minors has no line %q", want)
		}
	}
	if got, want := len(lines), 2+32*15*9; got != want {
		t.Errorf("got %d lines, want %d", got, want)
	}
}

func TestCreateRejectsAndLeavesNothing(t *testing.T) {
	cases := map[string]struct {
		change func(t *testing.T, cfg *node.Config)
		want   string // part of the error
	}{
		"a library is missing": {
			func(t *testing.T, cfg *node.Config) { cfg.Libraries = t.TempDir() }, "libnvidia-ml.so.1: no such file",
		},
		"the model is unknown": {
			func(_ *testing.T, cfg *node.Config) { cfg.Spec.GPUs[0].Model = "g80" }, "g80",
		},
		"the real driver is loaded": {
			func(t *testing.T, cfg *node.Config) {
				cfg.Host.ProcDevices = filepath.Join(t.TempDir(), "devices")
				write(t, cfg.Host.ProcDevices, "Character devices:\n  1 mem\n195 nvidia\n\nBlock devices:\n")
			}, "NVIDIA's driver is loaded here",
		},
		"the program cannot be copied": {
			func(_ *testing.T, cfg *node.Config) { cfg.Program += "-gone" }, "gpu-sim-gone: no such file",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			needRoot(t)
			cfg := config(t, "l4", 1)
			tc.change(t, &cfg)
			_, err := node.Create(cfg)
			assert.ErrorContains(t, err, tc.want)
			if left, err := os.ReadDir(filepath.Dir(cfg.Root)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("left behind: the node's parent with %v (%v)", left, err)
			}
		})
	}
}

func TestCreateLeavesAnExistingNodeAlone(t *testing.T) {
	cfg := config(t, "l4", 1)
	before := listing(t, create(t, cfg).Root())
	_, err := node.Create(cfg)
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "gpu-sim delete --root "+cfg.Root) {
		t.Errorf("got error %v, want one that names the fix", err)
	}
	if diff := cmp.Diff(before, listing(t, cfg.Root)); diff != "" {
		t.Errorf("the node changed (-before +after):\n%s", diff)
	}
}

func TestCreateLeavesAnotherFolderAlone(t *testing.T) {
	needRoot(t)
	cfg := config(t, "l4", 1)
	cfg.Root = t.TempDir()
	_, err := node.Create(cfg)
	if !errors.Is(err, fs.ErrExist) || strings.Contains(err.Error(), "delete") || !strings.Contains(err.Error(), "another --root") {
		t.Errorf("got error %v, want one that does not advise to delete it", err)
	}
}

func TestDelete(t *testing.T) {
	cfg := config(t, "l4", 1)
	n := create(t, cfg)
	assert.NilError(t, node.Delete(cfg.Root))
	if n.State().Show().Driver.Loaded {
		t.Error("who has the state open still sees a driver")
	}
	entries, err := os.ReadDir(filepath.Dir(cfg.Root))
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
}

func TestDeleteRejectsWhatIsNoNode(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorIs(t, node.Delete(dir), node.ErrNotFound)
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

func TestDamagedState(t *testing.T) {
	cfg := config(t, "l4", 1)
	create(t, cfg)
	// Not in place: the file is mapped.
	path := filepath.Join(cfg.Root, "state")
	assert.NilError(t, os.Remove(path))
	write(t, path, "not a state")
	if _, err := node.Open(cfg.Root, cfg.Host); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("got error %v, want %v", err, state.ErrCorrupt)
	}
	assert.NilError(t, node.Delete(cfg.Root), "delete a damaged node")
}
