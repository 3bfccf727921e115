package ctk_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/agents/container-toolkit/internal/containercli"
	"outrigger.dev/agents/container-toolkit/internal/ctk"
	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/agents/container-toolkit/internal/gpus/program"
	"outrigger.dev/agents/container-toolkit/internal/shim"
)

// Under the names of the programs, the test is these programs.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-ctk":
		os.Exit(ctk.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	case "nvidia-container-cli":
		os.Exit(containercli.Main(os.Args, os.Stdout, os.Stderr))
	case "nvidia-container-runtime":
		os.Exit(shim.Main(syscall.Exec))
	case "nvidia-cdi-hook":
		if err := cdihook.Confine(); err != nil {
			os.Exit(1)
		}
		os.Exit(cdihook.Main("nvidia-cdi-hook", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "hardware":
		if err := showDriver(); err != nil {
			os.Exit(1)
		}
		return
	case gpus.Program:
		os.Exit(program.Main(context.Background(), os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// programs puts nvidia-ctk and toolkit-gpus into a folder and returns it.
func programs(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	// In the folder of the test, because a hard link cannot leave its file system.
	dir, err := os.MkdirTemp(filepath.Dir(self), "programs") //nolint:usetesting // see above
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-cdi-hook", "hardware", gpus.Program} {
		assert.NilError(t, os.Link(self, filepath.Join(dir, name)))
	}
	return dir
}
