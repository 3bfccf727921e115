package plugin_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestLostAndHealed(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.watched(t)
	r.source.Lose(gpu.UUID(id(0)))
	r.healths(t, bad, ok)
	r.source.Heal(gpu.UUID(id(0)))
	r.healths(t, ok, ok)
}

func TestUnpluggedAndPlugged(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.watched(t)
	r.source.SetNode(gputest.Node(gputest.A100, 1))
	r.healths(t, ok)
	r.source.SetNode(gputest.Node(gputest.A100, 0))
	r.withdrawn(t, resourceName)
	r.source.SetNode(gputest.Node(gputest.A100, 3))
	r.healths(t, ok, ok, ok)
}

func TestDriverReplacedEndsThePlugin(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.source.SetError(fmt.Errorf("%w: %w", gpu.ErrNoDriver, gpu.ErrDriverChanged))
	assert.ErrorIs(t, r.runAll(agenttest.Deadline(t)), gpu.ErrDriverChanged)
	r.kubelet.Stop()
}

func TestPrepareFailsAndIsRetried(t *testing.T) {
	var (
		mu      sync.Mutex
		failure = errors.New("libcuda.so.1 not found")
	)
	r := newRig(t, 1, func(c *inventory.Config) {
		c.Preparer = preparer(func(*gpu.Node) (inventory.Prepared, error) {
			mu.Lock()
			defer mu.Unlock()
			return inventory.Prepared{}, failure
		})
	})
	r.startKubelet(t)
	r.run(t)
	r.watched(t)
	if n := len(r.kubelet.Registrations()); n != 0 {
		t.Errorf("%d registrations although the GPUs cannot be used", n)
	}
	if err := r.plugin.Ready(); err == nil {
		t.Error("Ready although the GPUs cannot be used")
	}
	mu.Lock()
	failure = nil
	mu.Unlock()
	r.changes <- struct{}{}
	r.healths(t, ok)
}

func TestReloadForgetsXIDsAndDropsNothing(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok)
	r.watched(t)
	r.source.PostXID(gpu.UUID(id(0)), 79)
	r.healths(t, bad)
	r.reload()
	r.healths(t, ok)
	r.once(t)
}

func TestWithoutRegistration(t *testing.T) {
	r := newRig(t, 1, func(c *inventory.Config) { c.Config.Register = false })
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	if n := len(r.kubelet.Registrations()); n != 0 {
		t.Errorf("%d registrations, want none", n)
	}
}
