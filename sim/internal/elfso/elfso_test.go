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

	"outrigger.dev/sim/internal/elfso"
)

func TestNew(t *testing.T) {
	data, err := elfso.New("libnvidia-cfg.so.1")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.DynString(elf.DT_SONAME)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"libnvidia-cfg.so.1"}, got); diff != "" {
		t.Errorf("SONAME (-want +got):\n%s", diff)
	}
}

// The loader has the last word on whether an object is valid: preload one.
func TestLoaderAcceptsObject(t *testing.T) {
	data, err := elfso.New("libnvidia-cfg.so.1")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "libnvidia-cfg.so.1")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/cat", "/proc/self/maps")
	cmd.Env = []string{"LD_PRELOAD=" + path}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run a program with the object: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), path) || strings.Contains(string(out), "cannot be preloaded") {
		t.Errorf("the loader did not map %s:\n%s", path, out)
	}
}
