package discovery_test

import (
	"context"
	"testing"
	"testing/synctest"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/gputest"
)

// TestLabelsSayWhetherTheMIGManagerIsAwaited: where labels keep it off the node, nobody writes
// mig-ready.
func TestLabelsSayWhetherTheMIGManagerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		labels := make(chan map[string]string)
		r := newRig(gputest.Node(gputest.H100, 2), func(c *discovery.Config) {
			c.Chain = []ready.Link{ready.Driver, ready.MIG}
			c.WatchNode = func(ctx context.Context, deliver func(ready.Node)) error {
				for {
					select {
					case l := <-labels:
						deliver(ready.Node{Labels: l})
					case <-ctx.Done():
						return nil
					}
				}
			}
		})
		r.facts.Store(&facts{contract.MIGReady: {State: contract.Missing, Reason: "in words"}})
		agenttest.Run(t, r.Run)
		if w := r.published(t); w.Condition != nil {
			t.Errorf("the condition is %+v before the labels are known", w.Condition)
		}
		const off = "nvidia.com/gpu.deploy.mig-manager"
		labels <- nil
		checkReady(t, r.published(t), ready.False, cause.MIGNotReady)
		labels <- map[string]string{off: "false"}
		checkReady(t, r.published(t), ready.True, ready.GPUsReady)
		labels <- map[string]string{off: "false", "other": "label"}
		r.quiet(t)
		labels <- map[string]string{off: "true"}
		checkReady(t, r.published(t), ready.False, cause.MIGNotReady)
	})
}
