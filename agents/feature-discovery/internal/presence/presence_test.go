package presence_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/presence"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/pci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node gets the desired labels.
type node struct {
	runs atomic.Int32
	// wants and once have the labels that Set and Once were given.
	wants, once chan map[string]string
	// fail is how many times Once fails.
	fail atomic.Int32
	// ends makes Run return an error.
	ends chan error
	// err is what Err returns.
	err atomic.Pointer[error]
}

func (n *node) Run(ctx context.Context) error {
	n.runs.Add(1)
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.ends:
		return err
	}
}

func (n *node) Set(w nodestate.Desired) { n.wants <- w.Labels }

var errAway = errors.New("the API server is away")

func (n *node) Once(_ context.Context, w nodestate.Desired) error {
	n.once <- w.Labels
	if n.fail.Add(-1) >= 0 {
		return errAway
	}
	return nil
}

func (n *node) Err() error {
	if err := n.err.Load(); err != nil {
		return *err
	}
	return nil
}

// bus is what a scan gives.
type bus struct {
	devices []pci.Device
	err     error
}

var errScan = errors.New("read /sys/bus/pci/devices: permission denied")

// gpus is a bus with n of them.
func gpus(n int) bus {
	b := bus{devices: []pci.Device{{BusID: "0000:00:02.0", Vendor: 0x10de, Class: 0x020000}}}
	for range n {
		b.devices = append(b.devices, pci.Device{BusID: "0000:17:00.0", Vendor: 0x10de, Class: 0x030200})
	}
	return b
}

// rig is a presence on a bus that the test changes, in a bubble of synctest.
type rig struct {
	*presence.Presence
	node    *node
	bus     atomic.Pointer[bus]
	changed chan struct{}
	ended   chan error
}

func start(t *testing.T, b bus) *rig {
	t.Helper()
	r := &rig{
		node:    &node{wants: make(chan map[string]string, 16), once: make(chan map[string]string, 64), ends: make(chan error)},
		changed: make(chan struct{}),
		ended:   make(chan error, 1),
	}
	r.bus.Store(&b)
	r.Presence = presence.New(presence.Config{
		Scan:  func() ([]pci.Device, error) { b := r.bus.Load(); return b.devices, b.err },
		Watch: r.watch,
		System: func() (machine.System, error) {
			return machine.System{Kernel: "6.1.0", ID: "debian", VersionID: "12"}, nil
		},
		Node: r.node, Grace: presence.Grace, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-r.ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return r
}

func (r *rig) watch(ctx context.Context, changed func()) {
	for changed(); ; changed() {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
	}
}

// set replaces the bus, and reports the change.
func (r *rig) set(b bus) {
	r.bus.Store(&b)
	r.changed <- struct{}{}
}

// pass lets the time of the bubble pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	pace.Pause(t.Context(), d)
	synctest.Wait()
}

// labelled waits until all has settled, and checks that labels of a GPU are
// desired since the last call, and none were removed.
func (r *rig) labelled(t *testing.T) {
	t.Helper()
	synctest.Wait()
	r.kept(t)
	if len(r.node.wants) == 0 {
		t.Fatal("no labels are desired")
	}
	for len(r.node.wants) > 0 {
		labels := <-r.node.wants
		if labels["nvidia.com/gpu.present"] != "true" || labels["feature.node.kubernetes.io/system-os_release.ID"] != "debian" {
			t.Errorf("labels %v", labels)
		}
	}
	assert.NilError(t, r.Ready())
}

// kept waits until all has settled, and checks that no labels were removed.
func (r *rig) kept(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if n := len(r.node.once); n > 0 {
		t.Errorf("labels were removed %d times", n)
	}
}

// removed waits until all has settled, and checks that the labels were removed
// in so many tries since the last call.
func (r *rig) removed(t *testing.T, tries int) {
	t.Helper()
	synctest.Wait()
	if n := len(r.node.once); n != tries {
		t.Errorf("labels were removed %d times, want %d", n, tries)
	}
	for len(r.node.once) > 0 {
		if labels := <-r.node.once; labels == nil || len(labels) > 0 {
			t.Errorf("labels %v, want an empty set", labels)
		}
	}
}

func (r *rig) notReady(t *testing.T, want string) {
	t.Helper()
	assert.ErrorContains(t, r.Ready(), want)
}

func TestGPUsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(0))
		r.kept(t)
		pass(t, presence.Grace)
		r.removed(t, 1)
		if n := r.node.runs.Load(); n != 0 || r.Ready() != nil {
			t.Errorf("%d watches of a Node without GPUs, want none; Ready() = %v", n, r.Ready())
		}
		for range 2 {
			r.set(gpus(1))
			r.labelled(t)
			r.set(gpus(0))
			pass(t, presence.Grace-time.Second)
			r.kept(t)
			pass(t, time.Second)
			r.removed(t, 1)
		}
		pass(t, time.Hour)
		r.removed(t, 0)
		if n := r.node.runs.Load(); n != 2 {
			t.Errorf("the Node was kept %d times, want 2", n)
		}
	})
}

func TestLabelsOutliveAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(8))
		for range 3 {
			r.labelled(t)
			r.set(gpus(0))
			pass(t, presence.Grace-time.Second)
			r.set(gpus(8))
		}
		r.labelled(t)
		pass(t, time.Hour)
		r.kept(t)
		if n := r.node.runs.Load(); n != 1 {
			t.Errorf("the Node was kept %d times, want once", n)
		}
		r.set(gpus(0))
		pass(t, presence.Grace)
		r.removed(t, 1)
	})
}

func TestARemovalThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(0))
		r.node.fail.Store(2)
		pass(t, presence.Grace)
		r.removed(t, 1)
		r.notReady(t, errAway.Error())
		r.set(gpus(0))
		r.removed(t, 0)
		r.notReady(t, errAway.Error())
		pass(t, time.Hour)
		r.removed(t, 2)
		assert.NilError(t, r.Ready())
	})
}

func TestABusThatCannotBeReadSaysNothing(t *testing.T) {
	for name, before := range map[string]bus{
		"at the start":           {err: errScan},
		"on a node with GPUs":    gpus(1),
		"on a node without GPUs": gpus(0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, before)
				pass(t, time.Hour)
				for len(r.node.wants)+len(r.node.once) > 0 {
					select {
					case <-r.node.wants:
					case <-r.node.once:
					}
				}
				r.set(bus{err: errScan})
				pass(t, time.Hour)
				r.kept(t)
				r.notReady(t, errScan.Error())
				// No event says that it can be read again, but it is polled.
				b := gpus(1)
				r.bus.Store(&b)
				pass(t, time.Hour)
				r.labelled(t)
			})
		})
	}
}

func TestABusThatCannotBeReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := gpus(1)
		b.err = errScan
		start(t, b).labelled(t)
	})
}

// Labels must go although the bus cannot be read at the very moment.
func TestABusThatCannotBeReadWhenTheLabelsAreToGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(1))
		r.labelled(t)
		r.set(gpus(0))
		pass(t, presence.Grace-time.Second)
		r.bus.Store(&bus{err: errScan})
		pass(t, time.Hour)
		r.kept(t)
		b := gpus(0)
		r.bus.Store(&b)
		pass(t, time.Hour)
		r.removed(t, 1)
	})
}

// The GPUs may come in the moment in which nobody waits for them.
func TestLabelsOfGPUsAreNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(0))
		synctest.Wait()
		b := gpus(1)
		r.bus.Store(&b) // without an event
		pass(t, presence.Grace)
		r.labelled(t)
	})
}

func TestReadyIsThatOfTheNodeWhileThereAreGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(1))
		r.labelled(t)
		r.node.err.Store(&errAway)
		r.notReady(t, errAway.Error())
		r.set(gpus(0))
		pass(t, presence.Grace)
		if err := r.Ready(); err != nil {
			t.Errorf("Ready() = %v for a Node without desired labels", err)
		}
	})
}

func TestANodeThatIsNotKeptEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gpus(1))
		r.labelled(t)
		r.node.ends <- errAway
		assert.ErrorIs(t, <-r.ended, errAway)
		r.ended <- nil
	})
}
