package plugin_test

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func errHangs() error {
	return fmt.Errorf("nvmlDeviceGetUUID of GPU 1 in NVML's list has not answered for 31s: %w", gpu.ErrHangs)
}

func TestDriverHangsAndAnswersAgain(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.watched(t)
	r.source.PostXID(gpu.UUID(id(1)), 79)
	r.healths(t, ok, bad)
	r.source.SetHealth(errHangs())
	assert.ErrorIs(t, r.plugin.Ready(), gpu.ErrHangs)
	r.healths(t, bad, bad)
	r.marker.wait(t, false)
	reads := r.source.Calls().Snapshot
	r.source.SetHealth(nil)
	r.healths(t, ok, bad)
	r.marker.wait(t, true)
	if err := r.plugin.Ready(); err != nil {
		t.Errorf("Ready says %v after the driver has answered", err)
	}
	assert.NilError(t, r.source.WaitCalls(agenttest.Deadline(t), func(c gputest.Calls) bool { return c.Snapshot > reads }), "no refresh of the node after the driver has answered")
	if n := len(r.kubelet.Registrations()); n != 1 {
		t.Errorf("%d registrations, want 1", n)
	}
}

func TestDriverHangsAtTheStart(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, 1, func(c *inventory.Config) {
		c.Preparer = preparer(func(*gpu.Node) (inventory.Prepared, error) { <-release; return inventory.Prepared{}, nil })
	})
	r.source.SetHealth(errHangs())
	r.startKubelet(t)
	r.run(t)
	assert.ErrorIs(t, r.plugin.Ready(), gpu.ErrHangs)
	r.source.SetHealth(nil)
	close(release)
	r.healths(t, ok)
	r.marker.wait(t, true)
}
