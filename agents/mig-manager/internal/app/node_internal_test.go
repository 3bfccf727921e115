package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
)

func TestLoadedAs(t *testing.T) {
	host := agent.Host{ProcRoot: t.TempDir(), SysRoot: t.TempDir()}
	module := filepath.Join(host.SysRoot, "module/nvidia")
	if got := loadedAs(host); got != "" {
		t.Errorf("loadedAs() without a driver = %q, want none", got)
	}
	write := func(version string) {
		t.Helper()
		assert.NilError(t, os.MkdirAll(filepath.Join(host.ProcRoot, "driver/nvidia"), 0o755))
		text := "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + version + "  Wed Oct 22 19:29:53 UTC 2025\n"
		assert.NilError(t, os.WriteFile(filepath.Join(host.ProcRoot, "driver/nvidia/version"), []byte(text), 0o600))
	}
	write("580.95.05")
	bare := loadedAs(host)
	if bare == "" {
		t.Error("loadedAs() without sysfs is empty, want the version")
	}
	load := func() string {
		t.Helper()
		// The folder before is kept: a file system, other than sysfs, could give its number away again.
		if err := os.Rename(module, module+"-before"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		assert.NilError(t, os.MkdirAll(module, 0o755))
		return loadedAs(host)
	}
	first := load()
	if again := loadedAs(host); again != first || first == bare {
		t.Errorf("loadedAs() = %q, and then %q, want the same", first, again)
	}
	if second := load(); second == first {
		t.Errorf("loadedAs() = %q, also after the driver was loaded again", second)
	}
	first = loadedAs(host)
	write("580.105.08")
	if second := loadedAs(host); second == first {
		t.Errorf("loadedAs() = %q, also for another version", second)
	}
}
