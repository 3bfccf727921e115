package reader

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

// resetting is NVML with two GPUs, of which the second needs a reset from the
// first wait for an event on.
type resetting struct {
	fakeNVML
	broken *resettingGPU
	// sets counts the event sets, and waits how often one was waited for.
	sets, waits int
	end         func()
}

func (r *resetting) EventSetCreate() (gonvml.EventSet, gonvml.Return) {
	r.sets++
	return &resettingSet{nvml: r}, gonvml.SUCCESS
}

type resettingSet struct {
	gonvml.EventSet
	nvml *resetting
	// gpus are those that are registered.
	mu   sync.Mutex
	gpus []*resettingGPU
}

func (s *resettingSet) Free() gonvml.Return { return gonvml.SUCCESS }

func (s *resettingSet) Wait(millis uint32) (gonvml.EventData, gonvml.Return) {
	if millis > 0 {
		s.nvml.waits++
		s.nvml.broken.broken = true
	}
	for _, g := range s.gpus {
		if g.broken {
			return gonvml.EventData{}, gonvml.ERROR_RESET_REQUIRED
		}
	}
	if millis > 0 {
		s.nvml.end()
	}
	return gonvml.EventData{}, gonvml.ERROR_TIMEOUT
}

type resettingGPU struct {
	gonvml.Device
	id     string
	broken bool
}

func (g *resettingGPU) answer() gonvml.Return {
	if g.broken {
		return gonvml.ERROR_RESET_REQUIRED
	}
	return gonvml.SUCCESS
}

func (g *resettingGPU) GetUUID() (string, gonvml.Return) { return g.id, gonvml.SUCCESS }

func (g *resettingGPU) GetMigMode() (int, int, gonvml.Return) {
	return 0, 0, gonvml.ERROR_NOT_SUPPORTED
}

func (g *resettingGPU) GetFieldValues([]gonvml.FieldValue) gonvml.Return { return gonvml.SUCCESS }

func (g *resettingGPU) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	return gonvml.Memory{}, g.answer()
}

func (g *resettingGPU) GetSupportedEventTypes() (uint64, gonvml.Return) {
	return gonvml.EventTypeXidCriticalError, g.answer()
}

func (g *resettingGPU) RegisterEvents(_ uint64, set gonvml.EventSet) gonvml.Return {
	if s, ok := set.(*resettingSet); ok && !g.broken {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gpus = append(s.gpus, g)
	}
	return g.answer()
}

func TestAGPUThatNeedsAResetIsLostAndLeftOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	second := &resettingGPU{id: "GPU-2"}
	api := &resetting{fakeNVML: fakeNVML{gpus: []gonvml.Device{&resettingGPU{id: "GPU-1"}, second}}, broken: second, end: cancel}
	var events []gpu.Event
	w := &watch{
		view:    viewOf(t, api),
		times:   times{rest: time.Millisecond, probe: time.Hour},
		deliver: func(e gpu.Event) { events = append(events, e) },
		log:     slog.New(slog.DiscardHandler),
	}
	assert.ErrorIs(t, w.run(ctx), context.Canceled)
	whole := gpu.Event{GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}
	first, lost := whole, whole
	first.Kind, lost.Kind, lost.GPU = gpu.EventTopologyChanged, gpu.EventLost, "GPU-2"
	// What the old set held could not be read: the second one of the kind says that something may have changed.
	if d := cmp.Diff([]gpu.Event{first, lost, first}, events); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if api.sets != 2 || api.waits != 2 {
		t.Errorf("%d event sets and %d waits, want 2 each: one wait with the GPU and one without", api.sets, api.waits)
	}
}

// A GPU that did not answer for long works again within 30 s after it answers.
func TestASilentGPUIsAskedWithin20Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := times{rest: restEvery, probe: probeEvery}
		w := &watch{view: &view{}, times: times, soon: times.soon(), gpus: []*watched{{silent: true}}, probed: time.Now()}
		for range 10 {
			before := time.Now()
			assert.NilError(t, w.next(t.Context()))
			if pause := time.Since(before); pause < probeEvery || pause > 20*time.Second {
				t.Errorf("the watch paused for %s, want 2 to 20 s", pause)
			}
		}
	})
}
