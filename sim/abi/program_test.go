package abi_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// compile builds a C program of testdata for this machine, with what else it is made of: one of
// the libraries, or source files.
func compile(t *testing.T, source string, parts ...string) string {
	t.Helper()
	return compileWith(t, "gcc", libraries(t), source, parts...)
}

// compileWith builds a C program of testdata with a compiler, and with the libraries in dir.
func compileWith(t *testing.T, compiler, dir, source string, parts ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	args := []string{
		"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-pthread",
		"-I", filepath.Join(dir, ".obj"), "-I", "../internal/state", "-Wl,-rpath," + dir, "-o", program,
		filepath.Join("testdata", source),
	}
	out, err := exec.CommandContext(t.Context(), compiler, append(args, parts...)...).CombinedOutput()
	assert.NilError(t, err, "compile %s\n%s", source, out)
	return program
}

func TestPrograms(t *testing.T) {
	runPrograms(t, "gcc", libraries(t))
}

// runPrograms compiles the C programs for the libraries in dir, and runs each by a command, if there is one.
func runPrograms(t *testing.T, compiler, dir string, command ...string) {
	t.Helper()
	asIs := func(*testing.T, *machine) {}
	tests := map[string]struct {
		library, model string
		prepare        func(*testing.T, *machine)
	}{
		"nvml.c":    {"libnvidia-ml.so.1", "a100-40", asIs},
		"mig.c":     {"libnvidia-ml.so.1", "a100-40", occupy},
		"process.c": {"libnvidia-ml.so.1", "l4", work},
		"cuda.c":    {"libcuda.so.1", "l4", asIs},
	}
	for source, test := range tests {
		t.Run(source, func(t *testing.T) {
			program := compileWith(t, compiler, dir, source, filepath.Join(dir, test.library))
			test.prepare(t, newMachine(t, state.NewSpec(test.model, 2)))
			line := append(slices.Clone(command), program)
			if out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
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
	program := compile(t, "cuinit.c", filepath.Join(libraries(t), "libcuda.so.1"))
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
			out, err := exec.CommandContext(t.Context(), program).Output()
			mustDo(t, err)
			if want := fmt.Sprintf("%d %d\n", test.result, test.count); string(out) != want {
				t.Errorf("got result and count %q, want %q", out, want)
			}
		})
	}
}

func TestReadersNeverSeeHalfAWrite(t *testing.T) {
	core, err := filepath.Glob("../internal/state/sim_*.c")
	mustDo(t, err)
	program := compile(t, "torn.c", core...)
	m := newMachine(t, state.NewSpec("l4", 1))
	if out, err := exec.CommandContext(t.Context(), program, m.Path()).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestEventWakesASleeper(t *testing.T) {
	program := compile(t, "wait.c", filepath.Join(libraries(t), "libnvidia-ml.so.1"))
	wakeASleeper(t, newMachine(t, state.NewSpec("l4", 1)), program)
}

// wakeASleeper runs wait.c until it waits for an event, and raises the event.
func wakeASleeper(t *testing.T, m *machine, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	stdout, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	waitUntilAsleep(t, cmd.Process.Pid)

	mustDo(t, m.PostXID(0, 45, state.NoInstance, state.NoInstance))
	lines.Scan()
	if got := lines.Text(); got != "45" {
		t.Errorf("got %q, want XID 45", got)
	}
	assert.NilError(t, cmd.Wait(), "waiting program")
}

// waitUntilAsleep returns when a process does nothing but wait.
func waitUntilAsleep(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		mustDo(t, err)
		if strings.Contains(string(stat), ") S ") {
			return
		}
		<-tick.C
	}
	t.Fatal("the program never went to sleep")
}
