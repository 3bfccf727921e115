package reader_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

// harness is a source under test with functions that change its node. The functions fail the test
// themselves.
type harness struct {
	Source gpu.Source
	// Node is the node that the source shows while all GPUs work. It has at least two GPUs.
	Node *gpu.Node
	Lose func(id gpu.UUID)
	Heal func(id gpu.UUID)
	// Partition gives a GPU MIG devices of exactly these profiles, and returns the GPU as the
	// source shows it afterwards. The MIG mode of Node's GPUs is off.
	Partition func(id gpu.UUID, profiles ...string) gpu.GPU
	// Profile is a profile that fits three times on each of Node's GPUs.
	Profile string
	// The other fields are only for testDriverSource.
	PostXID         func(id gpu.UUID, xid uint64)
	PostInstanceXID func(id gpu.UUID, gi, ci uint32, xid uint64)
	SetDriver       func(on bool)
	// SetFabric changes the fabric of a GPU. The GPUs of Node have joined a fabric.
	SetFabric func(id gpu.UUID, fabric gpu.Fabric)
}

// testSource tests the requirements of gpu.Source for every source. Each test has a separate
// harness.
func testSource(t *testing.T, setUp func(t *testing.T) harness) {
	runTests(t, setUp, map[string]func(*testing.T, harness){
		"a snapshot shows the node":                            testSnapshot,
		"a snapshot belongs to its reader":                     testSnapshotIsACopy,
		"a cancelled snapshot says so":                         testSnapshotCancelled,
		"snapshots may be read at the same time":               testSnapshotConcurrent,
		"a watch ends promptly with its context":               testWatchEnds,
		"a snapshot may be read while an event is delivered":   testSnapshotInDeliver,
		"a GPU that is lost at run time is reported and shown": testLose,
		"a GPU that is lost before the first use is shown":     testLostAtStart,
		"a GPU that comes back is reported and shown":          testHeal,
		"a source that is closed can be used again":            testClose,
		"MIG devices are shown":                                testMIG,
		"MIG devices that come are reported and shown":         testMIGComes,
		"MIG devices that go are reported and shown":           testMIGGoes,
		"a lost GPU is shown with the MIG devices that it had": testMIGLost,
	})
}

// testDriverSource runs testSource, and tests the requirements of gpu.Source for a source with a
// driver.
func testDriverSource(t *testing.T, setUp func(t *testing.T) harness) {
	testSource(t, setUp)
	runTests(t, setUp, map[string]func(*testing.T, harness){
		"an XID is delivered with its GPU":                        testXID,
		"XIDs are delivered in their order":                       testXIDOrder,
		"every watch gets every XID":                              testTwoWatches,
		"an XID is delivered with its MIG device":                 testXIDOfInstance,
		"a driver that goes and comes is reported and used again": testDriver,
		"a GPU that joins its fabric is reported and shown":       testFabric,
	})
}

func runTests(t *testing.T, setUp func(t *testing.T) harness, tests map[string]func(*testing.T, harness)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := setUp(t)
			t.Cleanup(func() {
				if err := h.Source.Close(); err != nil {
					t.Errorf("Close() = %v", err)
				}
			})
			test(t, h)
		})
	}
}

func testSnapshot(t *testing.T, h harness) {
	diff(t, h.Node, h.snapshot(t))
}

func testSnapshotIsACopy(t *testing.T, h harness) {
	node := h.snapshot(t)
	node.GPUs[0].UUID, node.GPUs[1] = "GPU-of-the-reader", gpu.GPU{}
	diff(t, h.Node, h.snapshot(t))
}

func testSnapshotCancelled(t *testing.T, h harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Source.Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Snapshot() = %v, want %v", err, context.Canceled)
	}
}

func testSnapshotConcurrent(t *testing.T, h harness) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			node, err := h.read(t.Context())
			if err != nil {
				t.Errorf("Snapshot() = %v", err)
				return
			}
			diff(t, h.Node, node)
		})
	}
	wg.Wait()
}

func testWatchEnds(t *testing.T, h harness) {
	w := h.watch(t)
	w.cancel()
	select {
	case err := <-w.done:
		if err != nil {
			t.Errorf("Watch() = %v, want nil at the end of its context", err)
		}
	case <-time.After(promptly):
		t.Errorf("Watch() is still running %v after the end of its context", promptly)
	}
}

func testXID(t *testing.T, h harness) {
	w := h.watch(t)
	h.PostXID(h.Node.GPUs[1].UUID, 31)
	want := gpu.GPUEvent(gpu.EventXID, h.Node.GPUs[1].UUID)
	want.XID = 31
	if got := w.next(t, gpu.EventXID); got != want {
		t.Errorf("event = %+v, want %+v", got, want)
	}
}

func testXIDOrder(t *testing.T, h harness) {
	w := h.watch(t)
	want := []uint64{13, 31, 43, 45, 13, 63}
	for i, xid := range want {
		h.PostXID(h.Node.GPUs[i%2].UUID, xid)
	}
	var got []uint64
	for range want {
		got = append(got, w.next(t, gpu.EventXID).XID)
	}
	diff(t, want, got)
}

func testTwoWatches(t *testing.T, h harness) {
	a, b := h.watch(t), h.watch(t)
	h.PostXID(h.Node.GPUs[0].UUID, 31)
	for _, w := range []*watching{a, b} {
		if got := w.next(t, gpu.EventXID); got.XID != 31 {
			t.Errorf("event = %+v, want XID 31", got)
		}
	}
}

func testSnapshotInDeliver(t *testing.T, h harness) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := h.Source.Watch(ctx, func(gpu.Event) {
		diff(t, h.Node, h.snapshot(t))
		cancel()
	})
	assert.NilError(t, err)
}

func testLose(t *testing.T, h harness) {
	diff(t, h.Node, h.snapshot(t))
	w := h.watch(t)
	lost := h.Node.GPUs[1]
	h.Lose(lost.UUID)
	if got, want := w.next(t, gpu.EventLost), gpu.GPUEvent(gpu.EventLost, lost.UUID); got != want {
		t.Errorf("event = %+v, want %+v", got, want)
	}
	node := h.snapshot(t)
	checkLost(t, h.Node, node, lost)
	diff(t, lost, node.GPUs[1], ignoreLostFields())
}

func testLostAtStart(t *testing.T, h harness) {
	lost := h.Node.GPUs[1]
	h.Lose(lost.UUID)
	checkLost(t, h.Node, h.snapshot(t), lost)
}

// ignoreLostFields ignores the fields that may change when a GPU is lost.
func ignoreLostFields() cmp.Option { return cmpopts.IgnoreFields(gpu.GPU{}, "Fault", "Recovery") }

// checkLost checks that only the GPU lost has a fault.
func checkLost(t *testing.T, well, node *gpu.Node, lost gpu.GPU) {
	t.Helper()
	if len(node.GPUs) != len(well.GPUs) {
		t.Fatalf("the node has %d GPUs, want %d", len(node.GPUs), len(well.GPUs))
	}
	for i, got := range node.GPUs {
		if got.Index != lost.Index {
			diff(t, well.GPUs[i], got)
			continue
		}
		if got.Fault == nil || got.Fault.Op == "" || got.Fault.Reason == "" {
			t.Errorf("GPU %d has the fault %+v, want an operation and a reason", i, got.Fault)
		}
		id := []any{got.UUID, got.Minor, got.PCI.BusID}
		diff(t, []any{lost.UUID, lost.Minor, lost.PCI.BusID}, id)
	}
	links := slices.DeleteFunc(slices.Clone(well.Links), func(l gpu.Link) bool {
		return l.A == lost.Index || l.B == lost.Index
	})
	diff(t, links, node.Links, cmpopts.EquateEmpty())
}

func testHeal(t *testing.T, h harness) {
	w := h.watch(t)
	id := h.Node.GPUs[0].UUID
	h.Lose(id)
	w.next(t, gpu.EventLost)
	h.Heal(id)
	w.next(t, gpu.EventTopologyChanged)
	diff(t, h.Node, h.snapshot(t))
}

func testDriver(t *testing.T, h harness) {
	w := h.watch(t)
	h.SetDriver(false)
	assert.ErrorIs(t, w.end(t), gpu.ErrNoDriver)
	if _, err := h.Source.Snapshot(t.Context()); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("Snapshot() = %v, want %v", err, gpu.ErrNoDriver)
	}
	assert.ErrorIs(t, h.Source.Watch(t.Context(), func(gpu.Event) {}), gpu.ErrNoDriver)
	h.SetDriver(true)
	diff(t, h.Node, h.snapshot(t))
	h.watch(t)
}

// testFabric lets a GPU join its fabric some time after the driver has loaded, as at the boot of a
// node.
func testFabric(t *testing.T, h harness) {
	cluster := gpu.Fabric{
		State: gpu.FabricCompleted, Status: gpu.FabricSuccess,
		ClusterUUID: "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21", CliqueID: 32766,
	}
	g := h.Node.GPUs[1]
	g.Fabric = &gpu.Fabric{State: gpu.FabricNotStarted}
	h.SetFabric(g.UUID, *g.Fabric)
	w := h.watch(t)
	diff(t, g, h.snapshot(t).GPUs[1])
	for _, next := range []gpu.Fabric{{State: gpu.FabricInProgress}, cluster} {
		g.Fabric = &next
		h.SetFabric(g.UUID, next)
		w.next(t, gpu.EventTopologyChanged)
		node := h.snapshot(t)
		diff(t, []gpu.GPU{h.Node.GPUs[0], g}, node.GPUs[:2])
	}
}

func testClose(t *testing.T, h harness) {
	w := h.watch(t)
	for range 2 {
		if err := h.Source.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	assert.ErrorIs(t, w.end(t), gpu.ErrClosed)
	diff(t, h.Node, h.snapshot(t))
	h.watch(t)
}
