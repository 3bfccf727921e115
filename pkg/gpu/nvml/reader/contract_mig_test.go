package reader_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/pkg/gpu"
)

// partitioned returns the harness's node with GPU 1 divided into n devices.
func (h harness) partitioned(t *testing.T, n int) *gpu.Node {
	t.Helper()
	profiles := make([]string, n)
	for i := range profiles {
		profiles[i] = h.Profile
	}
	want := *h.Node
	want.GPUs = slices.Clone(want.GPUs)
	want.GPUs[1] = h.Partition(want.GPUs[1].UUID, profiles...)
	if mig := want.GPUs[1].MIG; mig == nil || !mig.Enabled || len(mig.Devices) != n {
		t.Fatalf("GPU 1 has the MIG state %+v, want %d devices", mig, n)
	}
	return &want
}

func testMIG(t *testing.T, h harness) {
	diff(t, h.partitioned(t, 3), h.snapshot(t))
	diff(t, h.partitioned(t, 0), h.snapshot(t), cmpopts.EquateEmpty())
}

func testMIGComes(t *testing.T, h harness) {
	h.partitioned(t, 1)
	w := h.watch(t)
	h.reportsMIG(t, w, h.partitioned(t, 3))
}

func testMIGGoes(t *testing.T, h harness) {
	h.partitioned(t, 3)
	w := h.watch(t)
	h.reportsMIG(t, w, h.partitioned(t, 1))
	h.reportsMIG(t, w, h.partitioned(t, 0))
}

// reportsMIG waits until a watch has reported a change of GPU 1, and only of this GPU, and a
// snapshot shows want. A change may be reported in steps.
func (h harness) reportsMIG(t *testing.T, w *watching, want *gpu.Node) {
	t.Helper()
	for {
		e := w.next(t, gpu.EventMIGChanged)
		diff(t, gpu.GPUEvent(gpu.EventMIGChanged, want.GPUs[1].UUID), e)
		node := h.snapshot(t)
		if len(node.GPUs) == len(want.GPUs) && len(node.GPUs[1].MIG.Devices) == len(want.GPUs[1].MIG.Devices) {
			diff(t, want, node, cmpopts.EquateEmpty())
			return
		}
	}
}

func testMIGLost(t *testing.T, h harness) {
	want := h.partitioned(t, 2)
	diff(t, want, h.snapshot(t))
	lost := want.GPUs[1]
	h.Lose(lost.UUID)
	node := h.snapshot(t)
	checkLost(t, want, node, lost)
	diff(t, lost, node.GPUs[1], ignoreLostFields())
	node.GPUs[1].MIG.Devices[0].UUID, node.GPUs[1].MIG.GPUInstances[0].ID = "MIG-of-the-reader", gpu.NoInstance
	diff(t, lost, h.snapshot(t).GPUs[1], ignoreLostFields())
}

func testXIDOfInstance(t *testing.T, h harness) {
	node := h.partitioned(t, 2)
	w := h.watch(t)
	id, device := node.GPUs[1].UUID, node.GPUs[1].MIG.Devices[1]
	want := gpu.Event{
		Kind: gpu.EventXID, GPU: id, XID: 43,
		GPUInstance: device.GPUInstance, ComputeInstance: device.ComputeInstance,
	}
	h.PostInstanceXID(id, want.GPUInstance, want.ComputeInstance, want.XID)
	diff(t, want, w.next(t, gpu.EventXID))
	want.ComputeInstance = gpu.NoInstance
	h.PostInstanceXID(id, want.GPUInstance, want.ComputeInstance, want.XID)
	diff(t, want, w.next(t, gpu.EventXID))
}
