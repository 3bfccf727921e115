package history_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/history"
	"outrigger.dev/pkg/gpu"
)

var began = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

// filled is what is served of a history after so many seconds.
func filled(h *history.GPU, seconds int) exposition.GPU {
	var g exposition.GPU
	h.Fill(&g, after(seconds), time.Minute, time.Minute)
	return g
}

func TestXIDs(t *testing.T) {
	var h history.GPU
	if got := filled(&h, 0); got.LastXID != 0 || !got.LastXIDAt.IsZero() || len(got.XIDs) > 0 {
		t.Errorf("without errors: %+v", got)
	}
	h.XID(history.NVML, 31, 1, after(0))
	h.XID(history.NVML, 31, 1, after(50))
	h.XID(history.NVML, 79, gpu.NoInstance, after(55))
	got := filled(&h, 70)
	want := []exposition.XID{{Code: 31, Instance: 1, Total: 2, Recent: 1}, {Code: 79, Instance: gpu.NoInstance, Total: 1, Recent: 1}}
	if diff := cmp.Diff(want, got.XIDs); diff != "" || got.LastXID != 79 || !got.LastXIDAt.Equal(after(55)) {
		t.Error(diff, got.LastXID, got.LastXIDAt)
	}
	if got := filled(&h, 1000); got.XIDs[0].Total != 2 || got.XIDs[0].Recent != 0 || got.LastXID != 79 {
		t.Errorf("much later: %+v", got)
	}
}

// NVML and the kernel's log may report the same error.
func TestAnErrorFromTwoSourcesCountsOnce(t *testing.T) {
	var h history.GPU
	h.XID(history.KernelLog, 79, gpu.NoInstance, after(0))
	h.XID(history.NVML, 79, gpu.NoInstance, after(2))
	if got := filled(&h, 2).XIDs; len(got) != 1 || got[0].Total != 1 {
		t.Errorf("one error: %+v", got)
	}
	// The same source reports each error once.
	h.XID(history.KernelLog, 79, gpu.NoInstance, after(3))
	h.XID(history.NVML, 79, gpu.NoInstance, after(300))
	if got := filled(&h, 300).XIDs; got[0].Total != 3 {
		t.Errorf("three errors: %+v", got)
	}
}

// A driver that reports errors without end, or that invents codes, fills no memory.
func TestBounds(t *testing.T) {
	var h history.GPU
	for i := range 100_000 {
		h.XID(history.NVML, 13, 0, after(0))
		h.XID(history.NVML, uint64(1000+i), 0, after(0))
	}
	got := filled(&h, 0)
	if len(got.XIDs) > 300 {
		t.Errorf("%d codes", len(got.XIDs))
	}
	if x := got.XIDs[0]; x.Code != 13 || x.Total != 100_000 || x.Recent > 5000 {
		t.Errorf("%+v", x)
	}
	if got.LastXID != 100_999 {
		t.Errorf("the last error is %d", got.LastXID)
	}
}

func TestClockEvents(t *testing.T) {
	const capped, hot, unknown = 4, 0x40, 1 << 40
	var h history.GPU
	for i, bits := range []uint64{0, capped, capped | hot, hot | unknown, 0, capped} {
		h.Clocks(bits, after(10*i))
	}
	want := []exposition.ClockEvent{{Reason: "power_cap", Total: 2, Recent: 3}, {Reason: "hw_thermal", Total: 1, Recent: 2}}
	if diff := cmp.Diff(want, filled(&h, 60).Clocks); diff != "" {
		t.Error(diff)
	}
	want[0].Recent, want[1].Recent = 1, 0
	if diff := cmp.Diff(want, filled(&h, 100).Clocks); diff != "" {
		t.Error(diff)
	}
}
