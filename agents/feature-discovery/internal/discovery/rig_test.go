package discovery_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// facts are what the agents of the node say.
type facts = map[contract.Name]contract.Fact

// rig is a discovery on a node that the test changes, in a bubble of synctest.
type rig struct {
	*discovery.Discovery
	cfg    discovery.Config
	source *gputest.Fake
	bus    atomic.Pointer[discovery.Machine]
	// driver reports changes after which there may be one.
	driver chan struct{}
	// facts are those that a watch delivers at first, and watches counts these.
	facts   atomic.Pointer[facts]
	changed chan facts
	watches atomic.Int32
	// wants and configs are what was published, and what became of configs.
	wants, recorded chan nodestate.Desired
	configs         chan error
}

// newRig makes a discovery on a node, whose bus has its GPUs. Nothing but the
// driver has to hold for the GPUs to be ready.
func newRig(node *gpu.Node, change func(*discovery.Config)) *rig {
	r := &rig{
		source:   gputest.New(node),
		driver:   make(chan struct{}),
		changed:  make(chan facts),
		wants:    make(chan nodestate.Desired, 64),
		recorded: make(chan nodestate.Desired, 64),
		configs:  make(chan error, 64),
	}
	r.setBus(len(node.GPUs))
	r.facts.Store(&facts{})
	r.cfg = discovery.Config{
		Config:      config.Default(),
		Source:      r.source,
		WatchDriver: r.watchDriver,
		ReadMachine: func() discovery.Machine { return *r.bus.Load() },
		WatchFacts:  r.watchFacts,
		Chain:       []ready.Link{ready.Driver},
		Publish:     func(w nodestate.Desired) { r.wants <- w },
		Recorder:    r,
		Log:         slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&r.cfg)
	}
	r.Discovery = discovery.New(r.cfg)
	return r
}

// start runs a discovery until the test ends.
func start(t *testing.T, node *gpu.Node, change func(*discovery.Config)) *rig {
	t.Helper()
	r := newRig(node, change)
	agenttest.Run(t, r.Run)
	return r
}

func (r *rig) watchDriver(ctx context.Context, changed func()) error {
	for changed(); ; changed() {
		select {
		case <-ctx.Done():
			return nil
		case <-r.driver:
		}
	}
}

func (r *rig) watchFacts(ctx context.Context, deliver func(facts)) error {
	r.watches.Add(1)
	deliver(*r.facts.Load())
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-r.changed:
			deliver(f)
		}
	}
}

// Desired and Configured make the rig a Recorder.
func (r *rig) Desired(w nodestate.Desired) { r.recorded <- w }
func (r *rig) Configured(err error)        { r.configs <- err }

// setBus gives the bus n GPUs, which the driver has taken.
func (r *rig) setBus(n int) { r.setBusOf(n, "nvidia") }

// setBusOf gives the bus n GPUs with this driver.
func (r *rig) setBusOf(n int, driver string) {
	m := discovery.Machine{Product: "DGX H100"}
	for i := range n {
		m.PCI = append(m.PCI, pci.Device{BusID: fmt.Sprintf("0000:%02x:00.0", 7+8*i), Vendor: 0x10de, Class: 0x030200, Driver: driver})
	}
	r.bus.Store(&m)
}

// news returns what was published since the last call, once all has settled.
func (r *rig) news(t *testing.T) []nodestate.Desired {
	t.Helper()
	synctest.Wait()
	if len(r.wants) != len(r.recorded) {
		t.Errorf("%d were published and %d recorded", len(r.wants), len(r.recorded))
	}
	var all []nodestate.Desired
	for len(r.wants) > 0 {
		all = append(all, <-r.wants)
		<-r.recorded
	}
	return all
}

// published returns the newest of news, of which there is some.
func (r *rig) published(t *testing.T) nodestate.Desired {
	t.Helper()
	all := r.news(t)
	if len(all) == 0 {
		t.Fatal("nothing was published")
	}
	return all[len(all)-1]
}

// quiet checks that nothing is published.
func (r *rig) quiet(t *testing.T) {
	t.Helper()
	if all := r.news(t); len(all) > 0 {
		t.Errorf("published again: %+v", all)
	}
}

// pass lets the time of the bubble pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	pace.Pause(t.Context(), d)
	synctest.Wait()
}

// check compares what was published with the status and reason of the condition
// and with some labels.
func check(t *testing.T, w nodestate.Desired, status string, reason cause.Code, labels map[string]string) {
	t.Helper()
	checkReady(t, w, status, reason)
	checkLabels(t, w.Labels, labels)
}

func checkReady(t *testing.T, w nodestate.Desired, status string, reason cause.Code) {
	t.Helper()
	if w.Condition == nil || w.Condition.Status != status || w.Condition.Reason != string(reason) {
		t.Errorf("condition %+v, want %s %s", w.Condition, status, reason)
	}
}

// checkLabels compares some labels, of which an empty one is not there.
func checkLabels(t *testing.T, labels, want map[string]string) {
	t.Helper()
	if labels == nil {
		t.Error("the labels are not known")
	}
	for key, value := range want {
		if labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, labels[key], value)
		}
	}
}

// unknown checks that nothing is said of the labels, and why.
func (r *rig) unknown(t *testing.T, w nodestate.Desired, want error) {
	t.Helper()
	if w.Labels != nil {
		t.Errorf("labels %v, want that those stay which are there", w.Labels)
	}
	assert.ErrorIs(t, r.Unknown(), want)
}

// product and count are labels of all nodes with GPUs.
const (
	product = "nvidia.com/gpu.product"
	count   = "nvidia.com/gpu.count"
)

// h100 are labels of a node with n of this model.
func h100(n string) map[string]string {
	return map[string]string{product: "NVIDIA-H100-80GB-HBM3", count: n, "nvidia.com/gpu.machine": "DGX-H100"}
}
