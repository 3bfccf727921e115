// Package abi_test meets the simulated libraries as their users do: it loads
// the built files, through go-nvml and from C programs, in several processes.
package abi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// build makes the libraries, where they are missing or older than their
// sources, and returns the folder that holds them.
var build = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../bin/lib")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("make", "--no-print-directory", "-C", "../lib", "OUT="+dir)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return dir, cmd.Run()
})

func libraries(t *testing.T) string {
	t.Helper()
	dir, err := build()
	assert.NilError(t, err, "build the libraries")
	return dir
}

// machine is a simulated node that this process sees: its state, and a folder
// that stands for /dev.
type machine struct {
	*state.State
	dev     string
	library string
}

func newMachine(t *testing.T, spec state.Spec) *machine {
	t.Helper()
	m := &machine{dev: t.TempDir(), library: filepath.Join(libraries(t), "libnvidia-ml.so.1")}
	var err error
	m.State, err = state.Create(filepath.Join(t.TempDir(), "state"), spec)
	assert.NilError(t, err)
	t.Cleanup(func() { m.Close() })
	for _, node := range []string{"nvidiactl", "nvidia-uvm"} {
		m.addNode(t, node)
	}
	for i := range spec.GPUs {
		m.addNode(t, "nvidia"+strconv.Itoa(i))
	}
	t.Setenv("GPU_SIM_STATE", m.Path())
	t.Setenv("GPU_SIM_DEV", m.dev)
	return m
}

// addNode makes a regular file: opening it is allowed, as opening a device
// node without a driver is (ENXIO).
func (m *machine) addNode(t *testing.T, name string) {
	t.Helper()
	mustDo(t, os.MkdirAll(filepath.Dir(filepath.Join(m.dev, name)), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(m.dev, name), nil, 0o666))
}

func (m *machine) removeNode(t *testing.T, name string) {
	t.Helper()
	assert.NilError(t, os.Remove(filepath.Join(m.dev, name)))
}

func (m *machine) load() nvml.Interface {
	return nvml.New(nvml.WithLibraryPath(m.library))
}

// session opens an NVML session for the rest of the test.
func (m *machine) session(t *testing.T) nvml.Interface {
	t.Helper()
	lib := m.load()
	mustBe(t, "nvmlInit", lib.Init(), nvml.SUCCESS)
	t.Cleanup(func() { lib.Shutdown() })
	return lib
}

func device(t *testing.T, lib nvml.Interface, index int) nvml.Device {
	t.Helper()
	d, ret := lib.DeviceGetHandleByIndex(index)
	mustBe(t, "nvmlDeviceGetHandleByIndex", ret, nvml.SUCCESS)
	return d
}

func mustBe(t *testing.T, what string, got, want nvml.Return) {
	t.Helper()
	if got != want {
		t.Fatalf("%s answered %d, want %d", what, got, want)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}
