package abi_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// TestProgramsOnARM64 runs C programs with the libraries for arm64 in an emulator. The state file is
// of this process, so it also shows that the layout of the state is the same on both architectures.
func TestProgramsOnARM64(t *testing.T) {
	const compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
	if runtime.GOARCH == "arm64" {
		t.Skip("this machine has no other processor than the one that TestPrograms tests")
	}
	for _, tool := range []string{compiler, emulator} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this machine has no %s: tools/packages.sh packages-test.txt installs it", tool)
		}
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", "../lib", "OUT="+dir, "CC="+compiler).CombinedOutput()
	assert.NilError(t, err, "build the libraries for arm64\n%s", out)
	run := []string{emulator, "-L", "/usr/aarch64-linux-gnu"}

	runPrograms(t, compiler, dir, run...)
	t.Run("an event of another architecture", func(t *testing.T) {
		program := compileWith(t, compiler, dir, "wait.c", filepath.Join(dir, "libnvidia-ml.so.1"))
		wakeASleeper(t, newMachine(t, state.NewSpec("l4", 1)), append(slices.Clone(run), program)...)
	})
}
