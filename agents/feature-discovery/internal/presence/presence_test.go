package presence_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/presence"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/pci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is told what is wanted.
type node struct {
	runs  atomic.Int32
	wants chan publish.Wanted
	once  chan publish.Wanted
	fail  atomic.Int32
}

func (n *node) Run(ctx context.Context) error {
	n.runs.Add(1)
	<-ctx.Done()
	return nil
}

func (n *node) Want(w publish.Wanted) { n.wants <- w }

func (n *node) Once(_ context.Context, w publish.Wanted) error {
	n.once <- w
	if n.fail.Add(-1) >= 0 {
		return errors.New("the API server is away")
	}
	return nil
}

func (n *node) Err() error { return nil }

// rig is a presence on a bus that the test changes.
type rig struct {
	node    *node
	bus     atomic.Pointer[[]pci.Device]
	changed chan struct{}
	*presence.Presence
}

func gpus(n int) []pci.Device {
	out := make([]pci.Device, n)
	for i := range out {
		out[i] = pci.Device{BusID: "0000:17:00.0", Vendor: 0x10de, Class: 0x030200}
	}
	return out
}

func start(t *testing.T, devices []pci.Device, grace time.Duration, scanErr error) *rig {
	r := &rig{node: &node{wants: make(chan publish.Wanted, 16), once: make(chan publish.Wanted, 16)}, changed: make(chan struct{}, 1)}
	r.bus.Store(&devices)
	r.Presence = presence.New(presence.Config{
		Scan: func() ([]pci.Device, error) { return *r.bus.Load(), scanErr },
		Watch: func(ctx context.Context, changed func()) error {
			changed()
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-r.changed:
					changed()
				}
			}
		},
		System: func() (machine.System, error) {
			return machine.System{Kernel: "6.1.0", ID: "debian", VersionID: "12"}, nil
		},
		Node: r.node, Grace: grace, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return r
}

func (r *rig) set(devices []pci.Device) {
	r.bus.Store(&devices)
	r.changed <- struct{}{}
}

func TestGPUsComeAndGo(t *testing.T) {
	r := start(t, nil, 10*time.Millisecond, nil)
	if w := <-r.node.once; len(w.Labels) != 0 || w.Labels == nil {
		t.Errorf("a node without GPUs gets %v, want that its labels go", w.Labels)
	}
	if n := r.node.runs.Load(); n != 0 {
		t.Errorf("the Node of a node without GPUs is kept by %d watches, want none", n)
	}
	r.set(gpus(1))
	if w := <-r.node.wants; w.Labels["nvidia.com/gpu.present"] != "true" || w.Labels["feature.node.kubernetes.io/system-os_release.ID"] != "debian" {
		t.Errorf("labels %v", w.Labels)
	}
	r.set(nil)
	if w := <-r.node.once; len(w.Labels) != 0 {
		t.Errorf("after the GPUs have gone: %v, want that the labels go", w.Labels)
	}
}

func TestLabelsOutliveAReset(t *testing.T) {
	r := start(t, gpus(8), time.Hour, nil)
	<-r.node.wants
	r.set(nil)
	r.set(gpus(8))
	<-r.node.wants
	if len(r.node.once) > 0 {
		t.Errorf("labels went while the GPUs were away for a moment: %v", <-r.node.once)
	}
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	r := start(t, nil, time.Millisecond, nil)
	r.node.fail.Store(1)
	<-r.node.once
	<-r.node.once
}

func TestABusThatCannotBeReadSaysNothing(t *testing.T) {
	r := start(t, nil, time.Millisecond, errors.New("read /sys: permission denied"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	select {
	case w := <-r.node.once:
		t.Errorf("labels were removed on a guess: %v", w)
	case w := <-r.node.wants:
		t.Errorf("labels were written on a guess: %v", w)
	case <-ctx.Done():
	}
	if err := r.Ready(); err == nil {
		t.Error("Ready() = nil, want why the bus is not known")
	}
}
