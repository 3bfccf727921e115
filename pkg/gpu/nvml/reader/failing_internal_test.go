package reader

import (
	"log/slog"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

// failing is NVML with GPUs, each of which rejects events as often as it says.
type failing struct{ fakeNVML }

func (r *failing) EventSetCreate() (gonvml.EventSet, gonvml.Return) {
	return emptySet{}, gonvml.SUCCESS
}

type emptySet struct{ gonvml.EventSet }

func (emptySet) Free() gonvml.Return { return gonvml.SUCCESS }

func (emptySet) Wait(uint32) (gonvml.EventData, gonvml.Return) {
	return gonvml.EventData{}, gonvml.ERROR_TIMEOUT
}

type failingGPU struct {
	gonvml.Device
	times int
	asked int
}

func (g *failingGPU) GetUUID() (string, gonvml.Return) { return "GPU-1", gonvml.SUCCESS }

func (g *failingGPU) GetMigMode() (int, int, gonvml.Return) { return 0, 0, gonvml.ERROR_NOT_SUPPORTED }

func (g *failingGPU) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	return gonvml.Memory{}, gonvml.SUCCESS
}

func (g *failingGPU) GetFieldValues([]gonvml.FieldValue) gonvml.Return { return gonvml.SUCCESS }

func (g *failingGPU) GetSupportedEventTypes() (uint64, gonvml.Return) {
	return gonvml.EventTypeXidCriticalError, gonvml.SUCCESS
}

func (g *failingGPU) RegisterEvents(uint64, gonvml.EventSet) gonvml.Return {
	if g.asked++; g.asked <= g.times {
		return gonvml.ERROR_UNKNOWN
	}
	return gonvml.SUCCESS
}

func TestAGPUWithoutEventsIsAskedAgainAlone(t *testing.T) {
	good, bad := &failingGPU{}, &failingGPU{times: 2}
	w := &watch{
		view:    viewOf(t, &failing{fakeNVML{gpus: []gonvml.Device{good, bad}}}),
		times:   soon,
		deliver: func(e gpu.Event) { t.Errorf("event %+v: nothing has come or gone", e) },
		log:     slog.New(slog.DiscardHandler),
		gpus:    []*watched{{index: 0}, {index: 1}},
	}
	assert.NilError(t, w.register())
	for round, failed := range []bool{true, false, false} {
		assert.NilError(t, w.probe())
		if w.gpus[1].failed != failed || (w.gpus[1].events == 0) != failed {
			t.Errorf("round %d: GPU 1 = %+v, want failed %v", round, w.gpus[1], failed)
		}
	}
	if good.asked != 1 || bad.asked != 3 {
		t.Errorf("the GPUs were asked %d and %d times, want 1 and 3", good.asked, bad.asked)
	}
}
