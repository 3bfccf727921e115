package apply_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/devnode"
)

// The device nodes of new MIG devices are there when the change is made, though nobody else makes them.
func TestDeviceNodesAreMade(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes device nodes")
	}
	r := newRig(t, "--gpus=1", "--model=h100-80")
	dev := t.TempDir()
	a, err := apply.New(apply.Config{
		Session: r.session, StateDir: filepath.Join(r.dir, "state"), Reset: r, Limit: limit, Sys: filepath.Join(r.node.Root, "sys"),
		Devices: devnode.Config{Proc: filepath.Join(r.node.Root, "proc"), Dev: dev},
	})
	assert.NilError(t, err)
	// The /proc of the node shows what this process has changed after the next command of gpu-sim.
	for _, layout := range []string{"3g.40gb", "3g.40gb 1g.10gb"} {
		if _, err := a.Apply(t.Context(), r.ask(map[int]string{0: layout})); err != nil {
			t.Fatal(err)
		}
		if layout == "3g.40gb" {
			r.run("set 0.temperature=40")
		}
	}
	made, err := filepath.Glob(filepath.Join(dev, "nvidia-caps", "*"))
	assert.NilError(t, err)
	wanted, err := devnode.Driver(filepath.Join(r.node.Root, "proc")).GPUs()
	assert.NilError(t, err)
	caps := 0
	for _, n := range wanted {
		if filepath.Dir(n.Name) == "nvidia-caps" {
			caps++
			if !slices.Contains(made, filepath.Join(dev, n.Name)) {
				t.Errorf("%s is missing", n.Name)
			}
		}
	}
	// Those of the GPU instance and of its compute instance, beside config and monitor.
	if caps < 4 {
		t.Errorf("the driver has %d capabilities, want 4", caps)
	}
}

// A driver without nvidia-uvm, as early in a boot, has the device nodes of its MIG devices.
func TestDeviceNodesNeedNoOtherModule(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes device nodes")
	}
	r := newRig(t, "--gpus=1", "--model=h100-80")
	proc, dev := t.TempDir(), t.TempDir()
	devices := "Character devices:\n195 nvidia\n508 nvidia-caps\n"
	assert.NilError(t, errors.Join(os.WriteFile(filepath.Join(proc, "devices"), []byte(devices), 0o600),
		os.Symlink(filepath.Join(r.node.Root, "proc", "driver"), filepath.Join(proc, "driver"))))
	a, err := apply.New(apply.Config{
		Session: r.session, StateDir: filepath.Join(r.dir, "state"), Reset: r, Limit: limit, Sys: filepath.Join(r.node.Root, "sys"),
		Devices: devnode.Config{Proc: proc, Dev: dev},
		Log:     slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	assert.NilError(t, err)
	if _, err := a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb"})); err != nil {
		t.Fatal(err)
	}
	if r.log.Len() > 0 {
		t.Errorf("logged %s", r.log)
	}
	made, err := filepath.Glob(filepath.Join(dev, "nvidia-caps", "*"))
	if err != nil || len(made) < 2 {
		t.Errorf("device nodes %q, %v, want those of config and monitor", made, err)
	}
}
