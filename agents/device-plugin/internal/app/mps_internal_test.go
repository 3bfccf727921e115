package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/gputest"
)

// newMPSAgent returns an agent on a node whose GPU-a was left in another compute mode.
func newMPSAgent(t *testing.T) (*mpsAgent, contract.Dir) {
	t.Helper()
	root, err := driverroot.New(driverroot.Config{HostPath: t.TempDir()})
	assert.NilError(t, err)
	dir := contract.Dir{Root: t.TempDir()}
	left := `{"version": "v1", "before": {"GPU-a": "PROHIBITED"}}`
	assert.NilError(t, os.WriteFile(filepath.Join(dir.Root, "mps-compute-modes.json"), []byte(left), 0o600))
	return &mpsAgent{
		driver: &driver.Driver{Root: root, Contract: dir},
		log:    slog.New(slog.DiscardHandler),
	}, dir
}

func unshared(t *testing.T) inventory.State {
	t.Helper()
	return inventory.State{
		Node:   gputest.Node(gputest.A100, 1),
		Config: config.Config{Sharing: config.Sharing{Strategy: config.SharingNone}, MPSRoot: t.TempDir()},
	}
}

// The config may have changed while the process was away.
func TestModesThatAKilledProcessLeftAreSetBackWithoutMPS(t *testing.T) {
	m, dir := newMPSAgent(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for name, script := range map[string]string{
		"nvidia-smi":              "#!/bin/sh\necho \"$@\" >>" + bin + "/calls\n",
		"nvidia-cuda-mps-control": "#!/bin/sh\nexit 1\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	for range 2 {
		if r, err := m.serve(t.Context(), unshared(t)); err != nil || r.Pending != nil {
			t.Fatalf("serve() = %v, %v", r, err)
		}
	}
	calls, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil || string(calls) != "-i GPU-a -c PROHIBITED\n" {
		t.Errorf("nvidia-smi was called with %q (error %v), want the mode of GPU-a to be restored once", calls, err)
	}
	if mps.ModesRecorded(dir) {
		t.Error("the modes are still recorded as changed")
	}
}

func TestWithoutTheDriversProgramsModesStayLeft(t *testing.T) {
	m, dir := newMPSAgent(t)
	t.Setenv("PATH", t.TempDir())
	if r, err := m.serve(t.Context(), unshared(t)); err != nil || r.Pending != nil || !mps.ModesRecorded(dir) {
		t.Errorf("serve() = %v, %v, modes left: %v", r, err, mps.ModesRecorded(dir))
	}
	shared := unshared(t)
	shared.Config.Sharing.Strategy = config.SharingMPS
	if _, err := m.serve(t.Context(), shared); err == nil || !strings.Contains(err.Error(), "find nvidia-cuda-mps-control") {
		t.Errorf("serve() = %v with MPS", err)
	}
}
