package mps_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/resource"
)

func TestGateFollowsTheDaemon(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	cfg := config.Config{MPSRoot: filepath.Join(t.TempDir(), "mps")}
	r := resource.Resource{Name: shared, Sharing: config.SharingMPS}
	d := resource.Device{UUID: "GPU-a", Replicas: 2, MPS: true}
	gate := mps.NewGate(dir)
	changed := runGate(t, gate)

	closed := func(want string) {
		t.Helper()
		if got := gate.Closed(r, d, cfg); !strings.Contains(got, want) || want == "" && got != "" {
			t.Fatalf("Closed() = %q, want %q in it", got, want)
		}
	}
	closed("has not been written yet")
	ready := filepath.Join(cfg.MPSRoot, shared, "ready")
	assert.NilError(t, os.MkdirAll(filepath.Dir(ready), 0o755))
	for range 3 {
		held, err := dir.HoldFile(ready, contract.Record{Writer: "mps-control-daemon"})
		assert.NilError(t, err)
		signalled(t, changed)
		closed("")
		assert.NilError(t, held.Release())
		signalled(t, changed)
		closed("has not been written yet")
	}
}

func TestGateIgnoresWhatIsNotSharedByMPS(t *testing.T) {
	gate := mps.NewGate(contract.Dir{Root: t.TempDir()})
	runGate(t, gate)
	for _, sharing := range []config.SharingStrategy{config.SharingNone, config.SharingTimeSlicing} {
		if reason := gate.Closed(resource.Resource{Name: shared, Sharing: sharing}, resource.Device{}, config.Config{}); reason != "" {
			t.Errorf("Closed() = %q for sharing %q, want none", reason, sharing)
		}
	}
}

// runGate runs a gate until the test ends. The channel has a signal when Closed may return
// something else.
func runGate(t *testing.T, gate *mps.Gate) <-chan struct{} {
	t.Helper()
	changed := make(chan struct{}, 1)
	agenttest.Run(t, func(ctx context.Context) error {
		gate.Run(ctx, func() { pace.Signal(changed) })
		return nil
	})
	return changed
}

// signalled waits until the gate says that Closed may return something else.
func signalled(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(5 * time.Minute):
		t.Fatal("no signal after the ready file changed")
	}
}
