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
	first, second := filepath.Join(from, "a"), filepath.Join(from, "b")
	payloadtest.Write(t, first, "one", 0o600)
	payloadtest.Write(t, second, "two", 0o600)
	programs := map[string]string{"driver-loader": first, "driver-loader-drain": second}
	if err := installTo(to, programs); err != nil {
		t.Fatal(err)
	}
	// The copy that runs is replaced, and stays whole.
	running, err := os.Open(filepath.Join(to, "driver-loader"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	payloadtest.Write(t, first, "three", 0o600)
	if err := installTo(to, programs); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 10)
	if n, _ := running.Read(old); string(old[:n]) != "one" {
		t.Errorf("the program that runs was changed: %q", old[:n])
	}
	for name, want := range map[string]string{"driver-loader": "three", "driver-loader-drain": "two"} {
		got, err := os.ReadFile(filepath.Join(to, name))
		if info, _ := os.Stat(filepath.Join(to, name)); err != nil || string(got) != want || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %q (%v), %v", name, got, info.Mode(), err)
		}
	}
	if left, _ := os.ReadDir(to); len(left) != len(programs) {
		t.Errorf("%d files are in the folder, want %d", len(left), len(programs))
	}

	programs["driver-loader-drain"] = filepath.Join(from, "none")
	if err := installTo(to, programs); err == nil || !strings.Contains(err.Error(), "install driver-loader-drain in "+to) {
		t.Errorf("without a program: %v", err)
	}
}
