package reader

import (
	"log/slog"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// refusing is NVML with GPUs, each of which refuses events as often as it says.
type refusing struct{ fakeNVML }

func (r *refusing) EventSetCreate() (gonvml.EventSet, gonvml.Return) {
	return emptySet{}, gonvml.SUCCESS
}

type emptySet struct{ gonvml.EventSet }

func (emptySet) Free() gonvml.Return { return gonvml.SUCCESS }

func (emptySet) Wait(uint32) (gonvml.EventData, gonvml.Return) {
	return gonvml.EventData{}, gonvml.ERROR_TIMEOUT
}

type refusingGPU struct {
	gonvml.Device
	times int
	asked int
}

func (g *refusingGPU) GetUUID() (string, gonvml.Return) { return "GPU-1", gonvml.SUCCESS }

func (g *refusingGPU) GetMigMode() (int, int, gonvml.Return) { return 0, 0, gonvml.ERROR_NOT_SUPPORTED }

func (g *refusingGPU) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	return gonvml.Memory{}, gonvml.SUCCESS
}

func (g *refusingGPU) GetSupportedEventTypes() (uint64, gonvml.Return) {
	return gonvml.EventTypeXidCriticalError, gonvml.SUCCESS
}

func (g *refusingGPU) RegisterEvents(uint64, gonvml.EventSet) gonvml.Return {
	if g.asked++; g.asked <= g.times {
		return gonvml.ERROR_UNKNOWN
	}
	return gonvml.SUCCESS
}

func TestAGPUThatRefusedEventsIsAskedAgainAlone(t *testing.T) {
	good, bad := &refusingGPU{}, &refusingGPU{times: 2}
	w := &watch{
		view:    viewOf(t, &refusing{fakeNVML{gpus: []gonvml.Device{good, bad}}}),
		times:   soon,
		deliver: func(e gpu.Event) { t.Errorf("event %+v: nothing has come or gone", e) },
		log:     slog.New(slog.DiscardHandler),
		gpus:    []*watched{{index: 0}, {index: 1}},
	}
	if err := w.register(); err != nil {
		t.Fatal(err)
	}
	for round, refused := range []bool{true, false, false} {
		if err := w.probe(); err != nil {
			t.Fatal(err)
		}
		if w.gpus[1].refused != refused || (w.gpus[1].events == 0) != refused {
			t.Errorf("round %d: GPU 1 = %+v, want refused %v", round, w.gpus[1], refused)
		}
	}
	if good.asked != 1 || bad.asked != 3 {
		t.Errorf("the GPUs were asked %d and %d times, want 1 and 3", good.asked, bad.asked)
	}
}
