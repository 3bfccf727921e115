package gpu_test

import (
	"testing"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestNodeFindsGPUs(t *testing.T) {
	n := gputest.Node(gputest.L4, 3)
	n.GPUs = n.GPUs[1:] // an index is not a position
	n.GPUs[0].UUID = "" // of a GPU that does not answer
	if g := n.GPU(2); g != &n.GPUs[1] {
		t.Errorf("GPU(2) = %+v, want the second one", g)
	}
	if g := n.GPU(0); g != nil {
		t.Errorf("GPU(0) = %+v, want nil", g)
	}
	if g := n.ByUUID(n.GPUs[1].UUID); g != &n.GPUs[1] {
		t.Errorf("ByUUID() = %+v, want the second one", g)
	}
	for _, id := range []gpu.UUID{"", "GPU-1"} {
		if g := n.ByUUID(id); g != nil {
			t.Errorf("ByUUID(%q) = %+v, want nil", id, g)
		}
	}
}
