package manager_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube/apitest"
)

// driver is the driver of a node: why it cannot be asked, and which loading of it is the current one.
type driver struct {
	*node
	away   error
	loaded string
}

// Observe is that of manager.GPUs.
func (d *driver) Observe(ctx context.Context) (*apply.Observation, error) {
	d.mu.Lock()
	err := d.away
	d.mu.Unlock()
	d.did("observe")
	if err != nil {
		return nil, err
	}
	return d.node.Observe(ctx)
}

func (d *driver) loadedAs() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.loaded
}

// becomes changes the driver, and makes a manager look at it until it has acted on what it saw.
func (d *driver) becomes(m *manager.Manager, away error, loaded string) {
	d.Helper()
	d.set(func() { d.away, d.loaded = away, loaded })
	for range 3 {
		before := d.count("observe")
		m.Changed()
		d.until("looked at", func(shown) bool { return d.count("observe") > before })
	}
}

// TestAClaimLeavesTheNodeReady: a claim of NVML by another agent says nothing about the layouts, until
// the driver is unloaded or loaded again under it.
func TestAClaimLeavesTheNodeReady(t *testing.T) {
	claimed := fmt.Errorf("read GPUs: %w by driver-loader", contract.ErrClaimed)
	for name, tc := range map[string]struct {
		away   error
		loaded string
		want   contract.State
	}{
		"the driver stays":                       {away: claimed, loaded: "580.95.05/7", want: contract.Valid},
		"the driver is unloaded under the claim": {away: claimed, want: contract.Missing},
		"the driver is loaded again":             {away: claimed, loaded: "580.95.05/8", want: contract.Missing},
		"there is no driver":                     {away: gpu.ErrNoDriver, want: contract.Missing},
		"the driver hangs":                       {away: gpu.ErrHangs, loaded: "580.95.05/7", want: contract.Missing},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "all-balanced"}))
			n.is = "all-balanced"
			d := &driver{node: n, loaded: "580.95.05/7"}
			n.cfg.GPUs, n.cfg.Loaded = d, d.loadedAs
			m := manager.New(n.cfg)
			n.run(m)
			n.succeeds()
			n.until("published", func(shown) bool { return n.cfg.Contract.Read(contract.MIGReady).State == contract.Valid })

			d.becomes(m, tc.away, tc.loaded)
			if f := n.cfg.Contract.Read(contract.MIGReady); f.State != tc.want {
				t.Errorf("the fact mig-ready is %s (%s), want %s", f.State, f.Reason, tc.want)
			}
			if err := m.Ready(); (err == nil) != (tc.want == contract.Valid) {
				t.Errorf("/readyz shows %v while the fact is %s", err, tc.want)
			}
			n.succeeds()
			if got := n.seen(&n.events); len(got) > 0 {
				t.Errorf("events %q, want none", got)
			}

			d.becomes(m, nil, "580.95.05/9")
			n.until("published again", func(shown) bool { return n.cfg.Contract.Read(contract.MIGReady).State == contract.Valid })
		})
	}
}

// TestADriverThatWasLoadedAgainIsNotReadyYet: nobody saw the claim, and the layouts are gone.
func TestADriverThatWasLoadedAgainIsNotReadyYet(t *testing.T) {
	n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "all-balanced"}))
	n.is = "all-balanced"
	d := &driver{node: n, loaded: "580.95.05/7"}
	n.cfg.GPUs, n.cfg.Loaded = d, d.loadedAs
	stop := n.start()
	n.until("published", func(shown) bool { return n.cfg.Contract.Read(contract.MIGReady).State == contract.Valid })
	stop()
	n.set(func() {
		n.is, d.loaded = "all-disabled", "580.95.05/8"
		n.users = []mig.Holder{holds("default", "train-0")}
	})
	n.start()
	n.until("pending", func(s shown) bool { return s.state() == manager.Pending && s.cause() != "" })
	n.until("withdrawn", func(shown) bool { return n.cfg.Contract.Read(contract.MIGReady).State == contract.Missing })
}

// TestAClaimLeavesAFailureAsItIs: what failed before a claim of NVML has failed after it too, unless
// another config is asked for.
func TestAClaimLeavesAFailureAsItIs(t *testing.T) {
	n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "nonsense"}))
	d := &driver{node: n, loaded: "580.95.05/7"}
	n.cfg.GPUs, n.cfg.Loaded = d, d.loadedAs
	m := manager.New(n.cfg)
	n.run(m)
	var before, after shown
	n.until("failed", func(s shown) bool { before = s; return s.state() == manager.Failed })
	for range 2 {
		d.becomes(m, fmt.Errorf("read GPUs: %w by driver-loader", contract.ErrClaimed), "580.95.05/7")
		d.becomes(m, nil, "580.95.05/7")
	}
	d.becomes(m, fmt.Errorf("read GPUs: %w by driver-loader", contract.ErrClaimed), "580.95.05/7")
	n.until("seen", func(s shown) bool { after = s; return true })
	if after.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
		t.Errorf("the agent wrote %s, %s", after.state(), after.cause())
	}
	if got := n.seen(&n.events); len(got) != 1 {
		t.Errorf("events %q, want the one of the failure", got)
	}
	n.ask("all-balanced")
	n.until("pending", func(s shown) bool { return s.state() == manager.Pending })
}

// claimedLate is a node whose GPUs another agent claims between the observation and the change.
type claimedLate struct {
	*node
	claimed atomic.Bool
}

// Apply is that of manager.GPUs.
func (c *claimedLate) Apply(ctx context.Context, req apply.Request) (apply.Result, error) {
	if c.claimed.Load() {
		c.did("claimed")
		return apply.Result{}, fmt.Errorf("change of MIG layouts: %w by driver-loader", contract.ErrClaimed)
	}
	return c.node.Apply(ctx, req)
}

// TestAClaimBeforeTheChangeIsNoFailure: nothing was tried.
func TestAClaimBeforeTheChangeIsNoFailure(t *testing.T) {
	n := nodeOn(t, apitest.New(t, map[string]string{manager.ConfigLabel: "all-balanced"}))
	c := &claimedLate{node: n}
	c.claimed.Store(true)
	n.cfg.GPUs = c
	m := manager.New(n.cfg)
	n.run(m)
	n.until("tried", func(shown) bool { return n.count("claimed") > 0 })
	for range 3 {
		before := n.count("claimed")
		m.Changed()
		s := n.until("tried again", func(shown) bool { return n.count("claimed") > before })
		if s.state() != manager.Pending || s.cause() != "" {
			t.Errorf("the state is %q (%s), want %q", s.state(), s.cause(), manager.Pending)
		}
	}
	c.claimed.Store(false)
	m.Changed()
	n.succeeds()
	if got := n.sent(1); len(got) != 1 {
		t.Errorf("events %q, want the one of the success", got)
	}
}
