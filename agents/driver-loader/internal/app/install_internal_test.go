package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
)

func TestInstall(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "opt/outrigger")
	program := filepath.Join(from, "a")
	payloadtest.Write(t, program, "one", 0o600)
	if err := installTo(to, program); err != nil {
		t.Fatal(err)
	}
	// The copy that runs is replaced, and stays whole.
	running, err := os.Open(filepath.Join(to, "driver-loader"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	payloadtest.Write(t, program, "three", 0o600)
	if err := installTo(to, program); err != nil {
		t.Fatal(err)
	}
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
	if err := installTo(to, filepath.Join(from, "none")); err == nil || !strings.Contains(err.Error(), "install driver-loader in "+to) {
		t.Errorf("without a program: %v", err)
	}
}
