package app

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

func TestInstall(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "opt/outrigger")
	program := filepath.Join(from, "a")
	payloadtest.Write(t, program, "one", 0o600)
	assert.NilError(t, installTo(to, program))
	// The copy that runs is replaced, and stays whole.
	running, err := os.Open(filepath.Join(to, "driver-loader"))
	assert.NilError(t, err)
	defer running.Close()
	payloadtest.Write(t, program, "three", 0o600)
	assert.NilError(t, installTo(to, program))
	old := make([]byte, 10)
	if n, _ := running.Read(old); string(old[:n]) != "one" {
		t.Errorf("the program that runs was changed: %q", old[:n])
	}
	got, err := os.ReadFile(filepath.Join(to, "driver-loader"))
	if info, _ := os.Stat(filepath.Join(to, "driver-loader")); err != nil || string(got) != "three" || info.Mode().Perm() != 0o755 {
		t.Errorf("%q (%v), %v", got, info.Mode(), err)
	}
	if left, _ := os.ReadDir(to); len(left) != 1 {
		t.Errorf("%d files are in the folder, want one", len(left))
	}
	assert.ErrorContains(t, installTo(to, filepath.Join(from, "none")), "install driver-loader in "+to)
}
