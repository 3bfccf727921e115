package inventory_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// rig is an Inventory of a fake node, in the bubble of a synctest.
type rig struct {
	t        *testing.T
	source   *gputest.Fake
	inv      *inventory.Inventory
	recorder *recorder
	reports  *reports
}

func newRig(t *testing.T, gpus int, change ...func(*inventory.Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, source: gputest.New(gputest.Node(gputest.A100, gpus)),
		recorder: &recorder{}, reports: &reports{},
	}
	rules, _ := health.ParseRules("", "")
	cfg := inventory.Config{
		Config: config.Default(), Rules: rules, Source: r.source, Preparer: inventory.Unprepared{},
		WatchChanges: func(ctx context.Context, changed func()) error {
			changed()
			<-ctx.Done()
			return nil
		},
		Recorder: r.recorder, Reporter: r.reports, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	r.inv = inventory.New(cfg)
	return r
}

// run runs the inventory until the test ends.
func (r *rig) run() {
	r.t.Helper()
	agenttest.Run(r.t, r.inv.Run)
}

// settled returns the newest State once nothing happens any more.
func (r *rig) settled() inventory.State {
	r.t.Helper()
	synctest.Wait()
	return r.inv.State()
}

// after is settled after a time.
func (r *rig) after(d time.Duration) inventory.State {
	r.t.Helper()
	<-time.After(d)
	return r.settled()
}

// unhealthy returns the status of each unhealthy device, by index.
func unhealthy(s inventory.State) map[string]health.Status {
	out := map[string]health.Status{}
	for _, res := range s.Set.Resources {
		for _, d := range res.Devices {
			if !d.Health.Healthy {
				out[d.Index] = d.Health
			}
		}
	}
	return out
}

// devices returns how many devices are advertised.
func devices(s inventory.State) int {
	n := 0
	for _, res := range s.Set.Resources {
		n += len(res.Devices)
	}
	return n
}

type recorder struct {
	mu         sync.Mutex
	advertised resource.Set
	events     []gpu.Event
	waiting    []cause.Code
	configured []error
}

func (r *recorder) Advertised(s resource.Set) { r.locked(func() { r.advertised = s }) }
func (r *recorder) Event(ev gpu.Event)        { r.locked(func() { r.events = append(r.events, ev) }) }

func (r *recorder) Waiting(k cause.Code) { r.locked(func() { r.waiting = append(r.waiting, k) }) }

func (r *recorder) Configured(err error) {
	r.locked(func() { r.configured = append(r.configured, err) })
}

func (r *recorder) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// waited returns the kinds that Waiting was called with, without repetitions.
func (r *recorder) waited() []cause.Code {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Clone(r.waiting))
}

type reports struct {
	mu  sync.Mutex
	all []inventory.Report
}

func (r *reports) Report(p inventory.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
}

// kinds returns the kinds of the reports so far, and forgets them.
func (r *reports) kinds() []cause.Code {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []cause.Code
	for _, p := range r.all {
		out = append(out, p.Kind)
	}
	r.all = nil
	return out
}
