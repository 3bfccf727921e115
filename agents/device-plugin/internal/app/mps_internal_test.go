package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/pace"
)

// newMPSAgent returns an agent on a node whose GPU-a was left in another compute mode.
func newMPSAgent(t *testing.T) (*mpsAgent, contract.Dir) {
	t.Helper()
	root, err := driverroot.New(driverroot.Config{HostPath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	dir := contract.Dir{Root: t.TempDir()}
	left := `{"version": "v1", "before": {"GPU-a": "PROHIBITED"}}`
	if err := os.WriteFile(filepath.Join(dir.Root, "mps-compute-modes.json"), []byte(left), 0o600); err != nil {
		t.Fatal(err)
	}
	return &mpsAgent{
		settings: settings{driver: &driver.Driver{Root: root, Contract: dir}},
		ready:    pace.NewReadiness(errors.New("starting")),
		log:      slog.New(slog.DiscardHandler),
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
		if err := m.take(t.Context(), unshared(t)); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil || string(calls) != "-i GPU-a -c PROHIBITED\n" {
		t.Errorf("nvidia-smi was called with %q (error %v), want the mode of GPU-a to be restored once", calls, err)
	}
	if err := m.isReady(); err != nil || mps.LeftModes(dir) {
		t.Errorf("ready: %v, modes left: %v", err, mps.LeftModes(dir))
	}
}

func TestWithoutTheDriversProgramsModesStayLeft(t *testing.T) {
	m, dir := newMPSAgent(t)
	t.Setenv("PATH", t.TempDir())
	if err := m.take(t.Context(), unshared(t)); err != nil {
		t.Fatal(err)
	}
	if err := m.isReady(); err != nil || !mps.LeftModes(dir) {
		t.Errorf("ready: %v, modes left: %v", err, mps.LeftModes(dir))
	}
	shared := unshared(t)
	shared.Config.Sharing.Strategy = config.SharingMPS
	if err := m.take(t.Context(), shared); err == nil || !strings.Contains(err.Error(), "find nvidia-cuda-mps-control") {
		t.Errorf("take() = %v with MPS", err)
	}
}
