package plugin_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// asking returns a node whose GPU 0 needs what the driver says.
func asking(r gpu.Recovery) *gpu.Node {
	n := gputest.Node(gputest.A100, 2)
	n.GPUs[0].Recovery = r
	return n
}

func TestAnXIDThatPassesIsOver(t *testing.T) {
	r := newRig(t, 2, func(c *inventory.Config) { c.Rules.Quiet = 200 * time.Millisecond })
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.source.PostXID(gpu.UUID(id(0)), 61)
	r.healths(t, bad, ok)
	r.healths(t, ok, ok)
	// One refresh at the start, and one when the window was over.
	if n := r.source.Calls().Snapshot; n != 2 {
		t.Errorf("%d refreshes of the node, want 2", n)
	}
	r.once(t)
}

func TestAnXIDThatTakesAResetStaysUntilIt(t *testing.T) {
	r := newRig(t, 2, func(c *inventory.Config) { c.Rules.Quiet = time.Millisecond })
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.source.PostXID(gpu.UUID(id(0)), 95)
	r.healths(t, bad, ok)
	// A refresh after the window proves nothing on a driver that reports nothing.
	err := r.source.WaitCalls(agenttest.Deadline(t), func(c gputest.Calls) bool { return c.Snapshot > 1 })
	assert.NilError(t, err)
	r.source.PostXID(gpu.UUID(id(1)), 95)
	r.healths(t, bad, bad)
	r.source.Lose(gpu.UUID(id(0)))
	r.source.Heal(gpu.UUID(id(0)))
	r.healths(t, ok, bad)
}

func TestWhatTheDriverAsksFor(t *testing.T) {
	r := newRig(t, 2, nil)
	r.source.SetNode(asking(gpu.RecoveryNone))
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.source.SetNode(asking(gpu.RecoveryDrainAndReset))
	r.healths(t, bad, ok)
	r.source.PostXID(gpu.UUID(id(1)), 48)
	r.healths(t, bad, bad)
	r.source.SetNode(asking(gpu.RecoveryNone))
	r.healths(t, ok, bad)
	r.once(t)
}

// XID 154 says that the driver asks for something else than before.
func TestRecoveryActionChanges(t *testing.T) {
	r := newRig(t, 2, nil)
	r.source.SetNode(asking(gpu.RecoveryNone))
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.source.PostXID(gpu.UUID(id(0)), 154)
	err := r.source.WaitCalls(agenttest.Deadline(t), func(c gputest.Calls) bool { return c.Snapshot > 1 })
	assert.NilError(t, err)
	r.healths(t, ok, ok)
}
