package abi_test

import (
	"math"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/state"
)

// sampler takes two samples of something, and returns metrics of what lies
// between.
type sampler struct {
	lib  nvml.Interface
	from nvml.GpmSample
	to   nvml.GpmSample
	get  func(nvml.GpmSample) nvml.Return
}

func newSampler(t *testing.T, lib nvml.Interface, get func(nvml.GpmSample) nvml.Return) *sampler {
	t.Helper()
	s := &sampler{lib: lib, get: get}
	for _, sample := range []*nvml.GpmSample{&s.from, &s.to} {
		var ret nvml.Return
		*sample, ret = lib.GpmSampleAlloc()
		mustBe(t, "nvmlGpmSampleAlloc", ret, nvml.SUCCESS)
		t.Cleanup(func() { lib.GpmSampleFree(*sample) })
	}
	return s
}

// metric is what GPM returns of one metric.
type metric struct {
	Return nvml.Return
	Value  float64
}

// metrics computes metrics between the two samples.
func (s *sampler) metrics(t *testing.T, ids ...nvml.GpmMetricId) map[nvml.GpmMetricId]metric {
	t.Helper()
	query := nvml.GpmMetricsGetType{NumMetrics: uint32(len(ids)), Sample1: s.from, Sample2: s.to}
	for i, id := range ids {
		query.Metrics[i].MetricId = uint32(id)
	}
	mustBe(t, "nvmlGpmMetricsGet", s.lib.GpmMetricsGet(&query), nvml.SUCCESS)
	got := make(map[nvml.GpmMetricId]metric)
	for i, id := range ids {
		got[id] = metric{nvml.Return(query.Metrics[i].NvmlReturn), query.Metrics[i].Value}
	}
	return got
}

// measure takes a sample, and others until GPM knows a metric. nvml.h: "The
// interval between these two nvmlGpmSampleGet() calls should be greater than
// 100ms".
func (s *sampler) measure(t *testing.T, ids ...nvml.GpmMetricId) map[nvml.GpmMetricId]metric {
	t.Helper()
	mustBe(t, "the first sample", s.get(s.from), nvml.SUCCESS)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		mustBe(t, "the second sample", s.get(s.to), nvml.SUCCESS)
		if got := s.metrics(t, ids...); !math.IsNaN(got[ids[0]].Value) {
			return got
		}
	}
	t.Fatal("GPM never knows a metric")
	return nil
}

// mustMeasure compares metrics, whose values are rounded a little.
func mustMeasure(t *testing.T, want, got map[nvml.GpmMetricId]metric) {
	t.Helper()
	for id, m := range got {
		m.Value = math.Round(m.Value*1000) / 1000
		got[id] = m
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestGPMMeasuresAGPU(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	lib := m.session(t)
	d := device(t, lib, 0)
	for field, value := range map[string]string{
		"utilization-gpu": "91", "sm-active": "82", "sm-occupancy": "43", "integer-active": "4", "tensor-active": "55", "dfma-active": "6",
		"hmma-active": "47", "dmma-active": "8", "imma-active": "9", "dram-active": "30", "fp64-active": "11", "fp32-active": "12",
		"fp16-active": "13", "utilization-decoder": "14", "utilization-jpeg": "15", "utilization-ofa": "16",
		"pcie-tx": "1048576000", "pcie-rx": "2097152", "nvlink-tx": "18874368000", "nvlink-rx": "0",
	} {
		mustDo(t, m.SetField(0, field, value))
	}
	s := newSampler(t, lib, func(s nvml.GpmSample) nvml.Return { return d.GpmSampleGet(s) })
	want := map[nvml.GpmMetricId]metric{
		nvml.GPM_METRIC_GRAPHICS_UTIL: {nvml.SUCCESS, 91}, nvml.GPM_METRIC_SM_UTIL: {nvml.SUCCESS, 82},
		nvml.GPM_METRIC_SM_OCCUPANCY: {nvml.SUCCESS, 43}, nvml.GPM_METRIC_INTEGER_UTIL: {nvml.SUCCESS, 4},
		nvml.GPM_METRIC_ANY_TENSOR_UTIL: {nvml.SUCCESS, 55}, nvml.GPM_METRIC_DFMA_TENSOR_UTIL: {nvml.SUCCESS, 6},
		nvml.GPM_METRIC_HMMA_TENSOR_UTIL: {nvml.SUCCESS, 47}, nvml.GPM_METRIC_DMMA_TENSOR_UTIL: {nvml.SUCCESS, 8},
		nvml.GPM_METRIC_IMMA_TENSOR_UTIL: {nvml.SUCCESS, 9}, nvml.GPM_METRIC_DRAM_BW_UTIL: {nvml.SUCCESS, 30},
		nvml.GPM_METRIC_FP64_UTIL: {nvml.SUCCESS, 11}, nvml.GPM_METRIC_FP32_UTIL: {nvml.SUCCESS, 12}, nvml.GPM_METRIC_FP16_UTIL: {nvml.SUCCESS, 13},
		nvml.GPM_METRIC_NVDEC_6_UTIL: {nvml.SUCCESS, 14}, nvml.GPM_METRIC_NVDEC_7_UTIL: {nvml.ERROR_NOT_SUPPORTED, 0},
		nvml.GPM_METRIC_NVJPG_0_UTIL: {nvml.SUCCESS, 15}, nvml.GPM_METRIC_NVOFA_0_UTIL: {nvml.SUCCESS, 16},
		nvml.GPM_METRIC_NVOFA_1_UTIL: {nvml.ERROR_NOT_SUPPORTED, 0}, nvml.GPM_METRIC_NVENC_0_UTIL: {nvml.ERROR_NOT_SUPPORTED, 0},
		nvml.GPM_METRIC_PCIE_TX_PER_SEC: {nvml.SUCCESS, 1000}, nvml.GPM_METRIC_PCIE_RX_PER_SEC: {nvml.SUCCESS, 2},
		nvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: {nvml.SUCCESS, 18000}, nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: {nvml.SUCCESS, 0},
		nvml.GPM_METRIC_NVLINK_L17_TX_PER_SEC: {nvml.SUCCESS, 1000}, nvml.GPM_METRIC_NVLINK_L0_RX_PER_SEC: {nvml.SUCCESS, 0},
		nvml.GPM_METRIC_NVLINK_L18_TX_PER_SEC: {nvml.ERROR_NOT_SUPPORTED, 0}, nvml.GPM_METRIC_C2C_TOTAL_TX_PER_SEC: {nvml.ERROR_NOT_SUPPORTED, 0},
		0: {nvml.ERROR_INVALID_ARGUMENT, 0}, nvml.GPM_METRIC_MAX: {nvml.ERROR_INVALID_ARGUMENT, 0},
	}
	ids := []nvml.GpmMetricId{nvml.GPM_METRIC_SM_UTIL} // the one that measure waits for
	for id := range want {
		if id != ids[0] {
			ids = append(ids, id)
		}
	}
	mustMeasure(t, want, s.measure(t, ids...))
}

// A metric is the mean of what was between two samples, not what is at the end.
func TestGPMMeasuresTheTimeBetweenSamples(t *testing.T) {
	m := newMachine(t, state.NewSpec("h200", 1))
	lib := m.session(t)
	d := device(t, lib, 0)
	s := newSampler(t, lib, func(s nvml.GpmSample) nvml.Return { return d.GpmSampleGet(s) })
	mustDo(t, m.SetField(0, "sm-active", "100"))
	mustEqual(t, "busy", float64(100), s.measure(t, nvml.GPM_METRIC_SM_UTIL)[nvml.GPM_METRIC_SM_UTIL].Value)
	mustDo(t, m.SetField(0, "sm-active", "0"))
	for end := time.Now().Add(10 * time.Second); ; {
		mustBe(t, "a later sample", d.GpmSampleGet(s.to), nvml.SUCCESS)
		got := s.metrics(t, nvml.GPM_METRIC_SM_UTIL)[nvml.GPM_METRIC_SM_UTIL].Value
		if got > 0 && got < 60 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the mean stays at %f", got)
		}
	}
	mustEqual(t, "idle", float64(0), s.measure(t, nvml.GPM_METRIC_SM_UTIL)[nvml.GPM_METRIC_SM_UTIL].Value)
}

func TestGPMKnowsNothingOfSamplesThatAreTooClose(t *testing.T) {
	m := newMachine(t, state.NewSpec("h200", 1))
	lib := m.session(t)
	d := device(t, lib, 0)
	s := newSampler(t, lib, func(s nvml.GpmSample) nvml.Return { return d.GpmSampleGet(s) })
	for range 100 {
		start := time.Now()
		mustBe(t, "the first sample", s.get(s.from), nvml.SUCCESS)
		mustBe(t, "the second sample", s.get(s.to), nvml.SUCCESS)
		got := s.metrics(t, nvml.GPM_METRIC_SM_UTIL, nvml.GPM_METRIC_PCIE_TX_PER_SEC)
		if time.Since(start) >= 100*time.Millisecond {
			continue // this machine was too slow
		}
		for id, m := range got {
			if m.Return != nvml.SUCCESS || !math.IsNaN(m.Value) {
				t.Errorf("metric %d: got %+v, want no number", id, m)
			}
		}
		return
	}
	t.Fatal("this machine never takes two samples in 100 ms")
}

// nvml.h, nvmlGpmMigSampleGet: "for a MIG GPU Instance".
func TestGPMMeasuresEachInstance(t *testing.T) {
	m := divided(t, "h100-80")
	lib := m.session(t)
	d := device(t, lib, 0)
	uuid, gi := m.carve(t, 0, "3g.40gb")
	m.allow(t, 0, uuid)
	_, other := m.carve(t, 0, "1g.10gb")
	mustDo(t, m.SetInstanceField(0, gi, "sm-active", "60"))
	mustDo(t, m.SetInstanceField(0, gi, "utilization-decoder", "70"))
	mustDo(t, m.SetInstanceField(0, other, "sm-active", "5"))
	of := func(gi int) func(nvml.GpmSample) nvml.Return {
		return func(s nvml.GpmSample) nvml.Return { return d.GpmMigSampleGet(gi, s) }
	}
	want := map[nvml.GpmMetricId]metric{
		nvml.GPM_METRIC_SM_UTIL: {nvml.SUCCESS, 60}, nvml.GPM_METRIC_FP32_UTIL: {nvml.SUCCESS, 0},
		nvml.GPM_METRIC_NVDEC_2_UTIL: {nvml.SUCCESS, 70}, nvml.GPM_METRIC_NVDEC_3_UTIL: {nvml.ERROR_NOT_SUPPORTED, 0},
		nvml.GPM_METRIC_PCIE_TX_PER_SEC: {nvml.ERROR_NOT_SUPPORTED, 0}, nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: {nvml.ERROR_NOT_SUPPORTED, 0},
	}
	ids := []nvml.GpmMetricId{
		nvml.GPM_METRIC_SM_UTIL, nvml.GPM_METRIC_FP32_UTIL, nvml.GPM_METRIC_NVDEC_2_UTIL, nvml.GPM_METRIC_NVDEC_3_UTIL,
		nvml.GPM_METRIC_PCIE_TX_PER_SEC, nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
	}
	s := newSampler(t, lib, of(gi))
	mustMeasure(t, want, s.measure(t, ids...))
	// nvml.h, nvmlGpmSampleGet: "supports the device handle and MIG device handle".
	for _, mig := range migDevices(t, d) {
		if uuidOf(t, mig) == uuid {
			mustMeasure(t, want, newSampler(t, lib, func(s nvml.GpmSample) nvml.Return { return mig.GpmSampleGet(s) }).measure(t, ids...))
		}
	}
	mustEqual(t, "the other instance", float64(5), newSampler(t, lib, of(other)).measure(t, ids[0])[ids[0]].Value)

	mustBe(t, "a sample of another instance", d.GpmMigSampleGet(other, s.to), nvml.SUCCESS)
	query := nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: s.from, Sample2: s.to}
	mustBe(t, "samples of two instances", lib.GpmMetricsGet(&query), nvml.ERROR_INVALID_ARGUMENT)
	mustBe(t, "an instance that is not there", d.GpmMigSampleGet(6, s.to), nvml.ERROR_NOT_FOUND)
}

// What an instance has counted stays its own while others come and go.
func TestGPMOfInstancesThatMove(t *testing.T) {
	m := divided(t, "h100-80")
	lib := m.session(t)
	d := device(t, lib, 0)
	board, err := m.Board(0)
	mustDo(t, err)
	kind, _, err := board.Find("1g.10gb")
	mustDo(t, err)
	first, err := m.CreateGPUInstance(0, kind, 0)
	mustDo(t, err)
	_, gi := m.carve(t, 0, "1g.10gb")
	mustDo(t, m.SetInstanceField(0, gi, "sm-active", "60"))
	s := newSampler(t, lib, func(s nvml.GpmSample) nvml.Return { return d.GpmMigSampleGet(gi, s) })
	mustBe(t, "the first sample", s.get(s.from), nvml.SUCCESS)
	mustDo(t, m.DestroyGPUInstance(0, first))
	_, err = m.CreateGPUInstance(0, kind, 0)
	mustDo(t, err)
	for end := time.Now().Add(10 * time.Second); ; {
		mustBe(t, "the second sample", s.get(s.to), nvml.SUCCESS)
		got := s.metrics(t, nvml.GPM_METRIC_SM_UTIL)[nvml.GPM_METRIC_SM_UTIL].Value
		if !math.IsNaN(got) {
			mustEqual(t, "activity", float64(60), math.Round(got*1000)/1000)
			return
		}
		if time.Now().After(end) {
			t.Fatal("GPM never knows a metric")
		}
	}
}

// An instance that nothing can run in has no data: what DCGM meets.
func TestGPMOfAnInstanceWithoutComputeInstance(t *testing.T) {
	m := divided(t, "h200")
	lib := m.session(t)
	d := device(t, lib, 0)
	board, err := m.Board(0)
	mustDo(t, err)
	kind, _, err := board.Find("1g.18gb")
	mustDo(t, err)
	gi, err := m.CreateGPUInstance(0, kind, state.Anywhere)
	mustDo(t, err)
	s := newSampler(t, lib, func(s nvml.GpmSample) nvml.Return { return d.GpmMigSampleGet(gi.ID, s) })
	mustBe(t, "the first sample", s.get(s.from), nvml.SUCCESS)
	mustBe(t, "the second sample", s.get(s.to), nvml.SUCCESS)
	got := s.metrics(t, nvml.GPM_METRIC_SM_UTIL)
	mustEqual(t, "metric", metric{nvml.ERROR_NO_DATA, 0}, got[nvml.GPM_METRIC_SM_UTIL])
}

// nvml.h: "For Hopper or newer fully supported devices".
func TestGPMNeedsHopper(t *testing.T) {
	for model, want := range map[string]uint32{"a100-40": 0, "l4": 0, "h100-80": 1, "b200": 1} {
		t.Run(model, func(t *testing.T) {
			lib := newMachine(t, state.NewSpec(model, 1)).session(t)
			d := device(t, lib, 0)
			support, ret := d.GpmQueryDeviceSupport()
			mustBe(t, "nvmlGpmQueryDeviceSupport", ret, nvml.SUCCESS)
			mustEqual(t, "supported", want, support.IsSupportedDevice)
			sample, ret := lib.GpmSampleAlloc()
			mustBe(t, "nvmlGpmSampleAlloc", ret, nvml.SUCCESS)
			mustEqual(t, "sampled", want == 1, d.GpmSampleGet(sample) == nvml.SUCCESS)
			mustBe(t, "a sample of a GPU that is not divided", d.GpmMigSampleGet(0, sample), nvml.ERROR_NOT_SUPPORTED)
			mustBe(t, "nvmlGpmSampleFree", lib.GpmSampleFree(sample), nvml.SUCCESS)
			mustBe(t, "nvmlGpmSampleFree once more", lib.GpmSampleFree(sample), nvml.ERROR_INVALID_ARGUMENT)
			mustEqual(t, "a sample that is gone", false, d.GpmSampleGet(sample) == nvml.SUCCESS)
		})
	}
}
