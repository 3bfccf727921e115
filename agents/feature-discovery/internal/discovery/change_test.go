package discovery_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func mixed(c *discovery.Config) { c.Config.MIGStrategy = config.MIGStrategyMixed }

func TestMIGDevicesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := gputest.Node(gputest.A100, 2)
		id := node.GPUs[1].UUID
		r := start(t, node, mixed)
		const devices = "nvidia.com/mig-1g.5gb.count"
		checkLabels(t, r.published(t).Labels, map[string]string{devices: "", count: "2"})
		r.source.Partition(id, "1g.5gb", "1g.5gb")
		checkLabels(t, r.published(t).Labels, map[string]string{devices: "2", count: "2"})
		r.source.Partition(id, "7g.40gb")
		checkLabels(t, r.published(t).Labels, map[string]string{devices: "", "nvidia.com/mig-7g.40gb.count": "1"})
	})
}

func TestAConfigGivesOtherLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Partition(gputest.Node(gputest.A100, 1), 0, "1g.5gb"), nil)
		checkLabels(t, r.published(t).Labels, map[string]string{"nvidia.com/mig.strategy": ""})
		reads := r.source.Calls().Snapshot
		c := r.cfg
		mixed(&c)
		r.Configure(r.cfg.Config) // which nobody takes
		r.Configure(c.Config)
		checkLabels(t, r.published(t).Labels, map[string]string{"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.5gb.count": "1"})
		rejection := errors.New("config.yaml: line 3: unknown key")
		r.Reject(rejection)
		r.quiet(t)
		if n := r.source.Calls().Snapshot - reads; n != 0 {
			t.Errorf("the driver was asked %d times for a config, want not at all", n)
		}
		for i, want := range []error{nil, nil, rejection} {
			if got := <-r.configs; !errors.Is(got, want) {
				t.Errorf("config %d was recorded as %v, want %v", i, got, want)
			}
		}
	})
}

func TestTheSameIsNotPublishedAgain(t *testing.T) {
	node := gputest.Node(gputest.H100, 2)
	id := node.GPUs[0].UUID
	for name, tc := range map[string]struct {
		happens func(*rig)
		// reads is how often the driver is asked for it.
		reads int
	}{
		"a reload":                     {func(r *rig) { r.Reload() }, 1},
		"the same config":              {func(r *rig) { r.Configure(r.cfg.Config) }, 0},
		"the same facts":               {func(r *rig) { r.changed <- facts{} }, 0},
		"a change of MIG that is none": {func(r *rig) { r.source.Post(gpu.GPUEvent(gpu.EventMIGChanged, id)) }, 1},
		"an error of a program":        {func(r *rig) { r.source.PostXID(id, 31) }, 0},
		"nothing":                      {func(*rig) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, node, nil)
				r.news(t)
				reads := r.source.Calls().Snapshot
				tc.happens(r)
				pass(t, time.Hour)
				r.quiet(t)
				if n := r.source.Calls().Snapshot - reads; n != tc.reads {
					t.Errorf("the driver was asked %d times, want %d", n, tc.reads)
				}
			})
		})
	}
}

// plugin are facts of which that of the device plugin is in a state.
func plugin(s contract.State) facts {
	return facts{contract.PluginReady: {State: s, Reason: "in words", Stamp: contract.Stamp{Writer: "device-plugin"}}}
}

func plugged(c *discovery.Config) { c.Chain = []ready.Link{ready.Driver, ready.Plugin} }

func TestFactsFlipTheCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 8), plugged)
		before := r.published(t)
		checkReady(t, before, ready.Unknown, cause.Starting)
		for _, step := range []struct {
			state  contract.State
			status string
			reason cause.Code
		}{
			{contract.Missing, ready.False, cause.PluginNotReady},
			{contract.Valid, ready.True, ready.GPUsReady},
			{contract.WriterDead, ready.False, cause.PluginWriterDead},
			{contract.Valid, ready.True, ready.GPUsReady},
		} {
			r.changed <- plugin(step.state)
			w := r.published(t)
			checkReady(t, w, step.status, step.reason)
			if !maps.Equal(w.Labels, before.Labels) {
				t.Errorf("labels %v, want %v", w.Labels, before.Labels)
			}
		}
	})
}

func TestNoConditionBeforeTheFactsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 8), func(c *discovery.Config) {
			c.WatchFacts = func(ctx context.Context, _ func(facts)) error { <-ctx.Done(); return nil }
		})
		w := r.published(t)
		checkLabels(t, w.Labels, h100("8"))
		if w.Condition != nil {
			t.Errorf("condition %+v, want none: it would change at once", *w.Condition)
		}
	})
}

func TestWithoutAChainNothingIsSaidOfReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 8), func(c *discovery.Config) { c.Chain = nil })
		w := r.published(t)
		if w.Condition != nil || r.watches.Load() != 0 {
			t.Errorf("condition %+v after %d watches of facts, want neither", w.Condition, r.watches.Load())
		}
		checkLabels(t, w.Labels, h100("8"))
		r.source.SetDriver(false)
		pass(t, time.Hour)
		r.quiet(t)
	})
}
