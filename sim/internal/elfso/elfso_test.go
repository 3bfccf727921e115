package elfso_test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/elfso"
)

func TestNew(t *testing.T) {
	data, err := elfso.New("libnvidia-cfg.so.1")
	assert.NilError(t, err)
	f, err := elf.NewFile(bytes.NewReader(data))
	assert.NilError(t, err)
	got, err := f.DynString(elf.DT_SONAME)
	assert.NilError(t, err)
	if diff := cmp.Diff([]string{"libnvidia-cfg.so.1"}, got); diff != "" {
		t.Errorf("SONAME (-want +got):\n%s", diff)
	}
}

// The loader has the last word on whether an object is valid: preload one.
func TestLoaderAcceptsObject(t *testing.T) {
	data, err := elfso.New("libnvidia-cfg.so.1")
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), "libnvidia-cfg.so.1")
	assert.NilError(t, os.WriteFile(path, data, 0o755))
	cmd := exec.CommandContext(t.Context(), "/bin/cat", "/proc/self/maps")
	cmd.Env = []string{"LD_PRELOAD=" + path}
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "run a program with the object\n%s", out)
	if !strings.Contains(string(out), path) || strings.Contains(string(out), "cannot be preloaded") {
		t.Errorf("the loader did not map %s:\n%s", path, out)
	}
}
