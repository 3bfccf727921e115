package daemon

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/elfso"
	"outrigger.dev/sim/internal/machinetest"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/pool"
)

// rig is a machine on which processes of the daemon run, one after another.
type rig struct {
	*machinetest.Machine
	t      *testing.T
	cfg    Config
	labels map[string]string
	real   string
	events []kube.Event
	// made counts calls of Config.Made.
	made int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Machine: machinetest.New(t), t: t}
	dir := t.TempDir()
	for _, name := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		data, err := elfso.New(name)
		assert.NilError(t, err)
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	hook := filepath.Join(dir, "gpu-sim-hook")
	assert.NilError(t, os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o700))
	program := filepath.Join(dir, "gpu-sim")
	assert.NilError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	for name, text := range map[string]string{"devices": "Character devices:\n  1 mem\n\nBlock devices:\n", "pci/x": ""} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	assert.NilError(t, errors.Join(os.Remove(filepath.Join(dir, "pci/x")), os.Symlink("../../../devices/nic", filepath.Join(dir, "pci/0000:00:1f.0"))))
	r.cfg = Config{
		Root: filepath.Join(dir, "run/gpu-sim/node"), Name: "node1", Libraries: dir, Program: program, Hook: hook, Version: "1",
		Host:   node.Host{ProcDevices: filepath.Join(dir, "devices"), PCIDevices: filepath.Join(dir, "pci"), Dev: r.Dev},
		Real:   func() (string, error) { return r.real, nil },
		Report: func(e kube.Event) { r.events = append(r.events, e) },
		Made:   func() { r.made++ },
		Log:    slog.New(slog.DiscardHandler),
	}
	return r
}

// with sets the value of the label. An empty value removes it.
func (r *rig) with(value string) *rig {
	r.labels = map[string]string{}
	if value != "" {
		r.labels[pool.Label] = value
	}
	return r
}

// process runs a new process of the daemon for a step.
func (r *rig) process() (err error) {
	r.t.Helper()
	r.Container(func(on node.Shown) {
		cfg := r.cfg
		cfg.Shown = on
		d := New(cfg)
		d.Labelled(r.labels)
		_, err = d.step(r.t.Context())
	})
	return err
}

// gpus returns the device nodes of GPUs, and their product.
func (r *rig) gpus() (count int, product string) {
	r.t.Helper()
	r.Do(func() {
		nodes, err := filepath.Glob(filepath.Join(r.Dev, "nvidia[0-9]*"))
		assert.Check(r.t, err)
		infos, err := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
		assert.Check(r.t, err)
		assert.Check(r.t, len(nodes) == len(infos), "%v, but %v", nodes, infos)
		count = len(nodes)
		if count > 0 {
			text, err := os.ReadFile(infos[0])
			assert.Check(r.t, err)
			product = strings.TrimSpace(strings.SplitN(strings.SplitN(string(text), "\n", 2)[0], ":", 2)[1])
		}
	})
	return count, product
}

func (r *rig) has(count int, product string) {
	r.t.Helper()
	r.Do(func() { // containers are created with the hook as long as it is there
		_, err := os.Stat(node.HookIn(filepath.Join(r.Run, "driver")))
		assert.Check(r.t, (err == nil) == (count > 0), "%d GPUs, but the hook: %v", count, err)
	})
	n, p := r.gpus()
	assert.Assert(r.t, n == count && strings.Contains(p, product), "%d GPUs %s, want %d %s", n, p, count, product)
}

func TestAMachineFollowsItsLabel(t *testing.T) {
	r := newRig(t)
	r.Container(func(node.Shown) {})
	before := r.Listing()
	assert.NilError(t, r.with("").process())
	assert.Equal(t, before, r.Listing())
	assert.Equal(t, r.made, 0)
	assert.NilError(t, r.with("h100-80x8").process())
	r.has(8, "H100")
	assert.Equal(t, r.made, 1)
	assert.NilError(t, r.with("a100-40x2").process())
	r.has(2, "A100")
	assert.ErrorContains(t, r.with("h900x1").process(), `model "h900" is unknown`)
	r.has(2, "A100")
	assert.NilError(t, r.with("").process())
	assert.Equal(t, before, r.Listing())
	if left, err := os.ReadDir(filepath.Dir(r.cfg.Root)); err != nil || len(left) > 0 {
		t.Errorf("the host folder has %v, %v", left, err)
	}
}

// A restart of the pod must not reset the GPUs of running pods, and an update must bring the files of the
// new version.
func TestAProcessTakesOver(t *testing.T) {
	r := newRig(t).with("h100-80x1")
	assert.NilError(t, r.process())
	n, err := node.Open(r.cfg.Root, r.cfg.Host)
	assert.NilError(t, err)
	assert.NilError(t, errors.Join(n.SetField("0", "temperature", "84"), n.Close()))
	temperature := func() uint64 {
		n, err := node.Open(r.cfg.Root, r.cfg.Host)
		assert.NilError(t, err)
		defer n.Close()
		return n.State().Show().GPUs[0].Values["temperature"]
	}
	assert.NilError(t, r.process())
	r.has(1, "H100")
	assert.Equal(t, temperature(), uint64(84))
	r.cfg.Version = "2"
	assert.NilError(t, r.process())
	r.has(1, "H100")
	assert.Assert(t, temperature() != 84)
}

// A process that is killed leaves a part of a change. The next process completes it, or removes it.
func TestAKilledProcess(t *testing.T) {
	for name, kill := range map[string]func(r *rig){
		"before the record":   func(*rig) {},
		"without a driver":    func(r *rig) { r.Do(func() { assert.Check(r.t, node.Clear(r.cfg.Root)) }) },
		"without mounts":      func(r *rig) { r.Container(func(on node.Shown) { assert.Check(r.t, node.Hide(on)) }) },
		"without a state":     func(r *rig) { assert.Check(r.t, os.Remove(filepath.Join(r.cfg.Root, "state"))) },
		"with a broken state": func(r *rig) { assert.Check(r.t, os.WriteFile(filepath.Join(r.cfg.Root, "state"), []byte("x"), 0o600)) },
		"without a folder":    func(r *rig) { r.Do(func() { assert.Check(r.t, node.Delete(r.cfg.Root)) }) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.Container(func(node.Shown) {})
			before := r.Listing()
			assert.NilError(t, r.with("h100-80x2").process())
			record := filepath.Join(filepath.Dir(r.cfg.Root), "made.json")
			assert.NilError(t, os.Remove(record))
			kill(r)
			assert.NilError(t, r.process())
			r.has(2, "H100")
			assert.NilError(t, os.Remove(record))
			kill(r)
			r.Container(func(on node.Shown) {
				cfg := r.cfg
				cfg.Shown = on
				assert.Check(t, New(cfg).Remove(t.Context()))
			})
			assert.Equal(t, before, r.Listing())
		})
	}
}

func TestARealGPUIsRefused(t *testing.T) {
	r := newRig(t).with("h100-80x2")
	r.Container(func(node.Shown) {})
	before := r.Listing()
	assert.NilError(t, r.process())
	r.real = "the PCI device 0000:65:00.0 is an NVIDIA GPU"
	const want = "this node is not simulated: the PCI device 0000:65:00.0 is an NVIDIA GPU; remove its label outrigger.dev/simulated-gpus"
	assert.ErrorContains(t, r.process(), want)
	assert.Equal(t, before, r.Listing())
	last := r.events[len(r.events)-1]
	assert.Assert(t, last.Warning && strings.Contains(last.Message, want), "%+v", last)
	events := len(r.events)
	assert.ErrorContains(t, r.process(), want)
	assert.Equal(t, len(r.events), events+1) // another process
}

func TestASimulationThatCannotBeMade(t *testing.T) {
	r := newRig(t)
	r.Container(func(node.Shown) {})
	before := r.Listing()
	r.cfg.Pools = []pool.Pool{{Simulation: pool.Simulation{Model: "h100-80", GPUs: 1, MIG: []string{"7g.80gb", "7g.80gb"}}}}
	if err := r.with("").process(); err == nil {
		t.Error("two MIG devices of the size of the GPU fit")
	}
	assert.Equal(t, before, r.Listing())
}

// Boards before Hopper change the MIG mode in a reset.
func TestAPoolOfOlderBoards(t *testing.T) {
	r := newRig(t)
	r.cfg.Pools = []pool.Pool{{Simulation: pool.Simulation{Model: "a100-40", GPUs: 1, MIG: []string{"3g.20gb"}}}}
	assert.NilError(t, r.with("").process())
	n, err := node.Open(r.cfg.Root, r.cfg.Host)
	assert.NilError(t, err)
	defer n.Close()
	assert.Equal(t, len(n.State().Show().GPUs[0].MIG.GPUInstances), 1)
}

func TestPools(t *testing.T) {
	r := newRig(t)
	r.cfg.Pools = []pool.Pool{{Simulation: pool.Simulation{
		Model: "h100-80", GPUs: 2, MIG: []string{"3g.40gb", "1g.10gb"}, Fabric: "in-progress", DriverVersion: "570.1.2", Latency: "5us",
	}}}
	assert.NilError(t, r.with("").process())
	n, err := node.Open(r.cfg.Root, r.cfg.Host)
	assert.NilError(t, err)
	defer n.Close()
	snap := n.State().Show()
	assert.Equal(t, snap.Driver.Version, "570.1.2")
	assert.Equal(t, snap.Latency.String(), "5µs")
	for _, g := range snap.GPUs {
		assert.Equal(t, g.Fabric, "in-progress")
		assert.Equal(t, len(g.MIG.GPUInstances), 2)
	}
}

// TestProgramsUseTheGPUs runs the driver's program and the CUDA check on the machine, with the libraries of the
// driver root.
func TestProgramsUseTheGPUs(t *testing.T) {
	bin := os.Getenv("OUTRIGGER_BIN")
	if bin == "" {
		bin = "../../../bin"
	}
	bin, err := filepath.Abs(bin)
	assert.NilError(t, err)
	for _, name := range []string{"gpu-sim", "vectoradd", "lib/libcuda.so.1"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Skipf("bin/%s is missing: make build", name)
		}
	}
	r := newRig(t).with("h100-80x2")
	r.cfg.Libraries, r.cfg.Program = filepath.Join(bin, "lib"), filepath.Join(bin, "gpu-sim")
	assert.NilError(t, r.process())
	run := func(program string, args ...string) string {
		t.Helper()
		var out []byte
		r.Do(func() {
			cmd := exec.CommandContext(t.Context(), program, args...)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(r.Run, "driver", arch.Libraries), "GPU_SIM_DEV="+r.Dev)
			var err error
			out, err = cmd.CombinedOutput()
			assert.Check(t, err, "%s", out)
		})
		return string(out)
	}
	if got := run(filepath.Join(r.Run, "driver/usr/bin/nvidia-smi"), "-L"); strings.Count(got, "NVIDIA H100") != 2 {
		t.Errorf("nvidia-smi -L says %q", got)
	}
	if got := run(filepath.Join(bin, "vectoradd")); !strings.Contains(got, "Test PASSED") {
		t.Errorf("vectoradd says %q", got)
	}
}
