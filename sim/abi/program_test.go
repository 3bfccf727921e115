package abi_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"outrigger.dev/sim/internal/state"
)

// compile builds a C program of testdata against one of the libraries.
func compile(t *testing.T, source, library string) string {
	t.Helper()
	dir, program := libraries(t), filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-I", filepath.Join(dir, ".obj"), "-I", "../internal/state", "-o", program,
		filepath.Join("testdata", source), filepath.Join(dir, library), "-Wl,-rpath,"+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("compile %s: %v\n%s", source, err, out)
	}
	return program
}

func TestPrograms(t *testing.T) {
	tests := map[string]struct {
		library, model string
	}{
		"nvml.c": {"libnvidia-ml.so.1", "a100-40"},
		"cuda.c": {"libcuda.so.1", "l4"},
	}
	for source, test := range tests {
		t.Run(source, func(t *testing.T) {
			program := compile(t, source, test.library)
			newMachine(t, state.NewSpec(test.model, 2))
			if out, err := exec.Command(program).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestCUDASeesTheGPUsItMayOpen(t *testing.T) {
	const (
		success     = 0
		noDevice    = 100
		unavailable = 999
	)
	program := compile(t, "cuinit.c", "libcuda.so.1")
	tests := map[string]struct {
		change        func(t *testing.T, m *machine)
		result, count int
	}{
		"all of them": {func(*testing.T, *machine) {}, success, 4},
		"without the node of one": {
			func(t *testing.T, m *machine) { m.removeNode(t, "nvidia2") }, success, 3,
		},
		"one is lost": {func(t *testing.T, m *machine) { mustDo(t, m.Lose(1, state.LostHandle)) }, success, 3},
		"no GPU's node": {func(t *testing.T, m *machine) {
			for i := range 4 {
				m.removeNode(t, fmt.Sprintf("nvidia%d", i))
			}
		}, noDevice, 0},
		"no control node": {func(t *testing.T, m *machine) { m.removeNode(t, "nvidiactl") }, noDevice, 0},
		"no node of the memory manager": {
			func(t *testing.T, m *machine) { m.removeNode(t, "nvidia-uvm") }, unavailable, 0,
		},
		"driver not loaded": {func(t *testing.T, m *machine) { mustDo(t, m.SetDriver(false)) }, noDevice, 0},
		"no state file":     {func(t *testing.T, m *machine) { mustDo(t, os.Remove(m.Path())) }, noDevice, 0},
		"an answer that is forced": {
			func(t *testing.T, m *machine) { mustDo(t, m.ForceReturn("cuInit", 46)) }, 46, 0,
		},
		"chosen by index": {
			func(t *testing.T, _ *machine) { t.Setenv("CUDA_VISIBLE_DEVICES", "3,0") }, success, 2,
		},
		"chosen by UUID, up to an unknown one": {func(t *testing.T, m *machine) {
			t.Setenv("CUDA_VISIBLE_DEVICES", m.Show().GPUs[2].UUID+",GPU-none,0")
		}, success, 1},
		"none chosen": {func(t *testing.T, _ *machine) { t.Setenv("CUDA_VISIBLE_DEVICES", "") }, noDevice, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 4))
			test.change(t, m)
			out, err := exec.Command(program).Output()
			mustDo(t, err)
			if want := fmt.Sprintf("%d %d\n", test.result, test.count); string(out) != want {
				t.Errorf("got result and count %q, want %q", out, want)
			}
		})
	}
}
