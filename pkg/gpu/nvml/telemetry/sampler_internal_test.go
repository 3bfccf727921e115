package telemetry

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

func TestCounterAddsUp(t *testing.T) {
	const narrow = 1 << 32
	for name, c := range map[string]struct {
		width float64
		reads []float64
		want  float64
	}{
		"rises":                      {0, []float64{5, 10, 10, 25}, 25},
		"wraps at 32 bits":           {narrow, []float64{narrow - 10, 5}, narrow + 5},
		"begins again with a driver": {narrow, []float64{100, 7}, 107},
		"of 64 bits begins again":    {0, []float64{narrow * 4, 7}, narrow*4 + 7},
	} {
		var got float64
		var counter counter
		for _, value := range c.reads {
			got = counter.add(value, c.width)
		}
		if got != c.want {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	value := func(kind gonvml.ValueType, bits uint64) gonvml.FieldValue {
		v := gonvml.FieldValue{ValueType: uint32(kind)}
		binary.NativeEndian.PutUint64(v.Value[:], bits)
		return v
	}
	for _, c := range []struct {
		of   gonvml.FieldValue
		want float64
	}{
		{value(gonvml.VALUE_TYPE_DOUBLE, math.Float64bits(1.5)), 1.5},
		{value(gonvml.VALUE_TYPE_UNSIGNED_INT, 0xdeadbeef_00000007), 7},
		{value(gonvml.VALUE_TYPE_UNSIGNED_LONG, 1<<40), 1 << 40},
		{value(gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1<<50), 1 << 50},
		{value(gonvml.VALUE_TYPE_SIGNED_LONG_LONG, ^uint64(4)), -5},
		{value(gonvml.VALUE_TYPE_SIGNED_INT, 0xfffffffb), -5},
		{value(gonvml.VALUE_TYPE_UNSIGNED_SHORT, 0xbeef_0003), 3},
	} {
		if got, ok := decode(c.of); !ok || got != c.want {
			t.Errorf("type %d: %g, %t, want %g", c.of.ValueType, got, ok, c.want)
		}
	}
	if _, ok := decode(value(99, 1)); ok {
		t.Error("an unknown type has a value")
	}
}

func TestRate(t *testing.T) {
	var r rate
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		value float64
		after time.Duration
		want  float64
		ok    bool
	}{{100, 0, 0, false}, {300, 2 * time.Second, 100, true}, {50, time.Second, 0, false}, {60, time.Second, 10, true}, {70, 0, 0, false}} {
		now = now.Add(c.after)
		if got, ok := r.next(c.value, now); got != c.want || ok != c.ok {
			t.Errorf("%d: %g, %t, want %g, %t", i, got, ok, c.want, c.ok)
		}
	}
}

func TestProcesses(t *testing.T) {
	const second = 1_000_000
	var p processes
	running := []gonvml.ProcessInfo{
		{Pid: 1, UsedGpuMemory: 100, GpuInstanceId: 0xFFFFFFFF}, {Pid: 2, UsedGpuMemory: notAvailable, GpuInstanceId: 3},
	}
	sample := func(pid uint32, at uint64, busy uint32) gonvml.ProcessUtilizationSample {
		return gonvml.ProcessUtilizationSample{Pid: pid, TimeStamp: at * second, SmUtil: busy}
	}
	got := p.update(running, []gonvml.ProcessUtilizationSample{sample(1, 100, 50), sample(2, 100, 100), sample(9, 100, 100)})
	if got[0] != (Process{PID: 1, Instance: gpu.NoInstance, Memory: 100}) || got[1] != (Process{PID: 2, Instance: 3}) {
		t.Errorf("at first: %+v", got)
	}
	if p.seen != 100*second {
		t.Errorf("seen %d", p.seen)
	}
	got = p.update(running, []gonvml.ProcessUtilizationSample{sample(1, 102, 50), sample(1, 104, 25), sample(2, 104, 400)})
	if got[0].SMSeconds != 1.5 || got[1].SMSeconds != 4 {
		t.Errorf("after four seconds: %+v", got)
	}
	// A gap is no time in which a process was busy.
	got = p.update(running, []gonvml.ProcessUtilizationSample{sample(1, 1000, 100)})
	if got[0].SMSeconds != 1.5 {
		t.Errorf("after a gap: %+v", got)
	}
	// A process that has ended is forgotten: its PID may be that of another one.
	p.update(nil, nil)
	if got = p.update(running[:1], nil); got[0].SMSeconds != 0 {
		t.Errorf("another process: %+v", got)
	}
}
