package abi_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// samples waits for samples of processes that are newer than seen.
func samples(t *testing.T, d nvml.Device, seen uint64) []nvml.ProcessUtilizationSample {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		list, ret := d.GetProcessUtilization(seen)
		if ret == nvml.SUCCESS {
			slices.SortFunc(list, func(a, b nvml.ProcessUtilizationSample) int { return cmp.Compare(a.Pid, b.Pid) })
			return list
		}
		mustBe(t, "nvmlDeviceGetProcessUtilization", ret, nvml.ERROR_NOT_FOUND)
	}
	t.Fatal("no process is ever sampled")
	return nil
}

// nvml.h, nvmlDeviceGetProcessUtilization: one sample per process "that had some
// non-zero utilization during the last sample period", "with timestamp greater
// than lastSeenTimeStamp".
func TestProcessesAreSampled(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 2))
	d := device(t, m.session(t), 0)
	process := func(pid int, use state.Use) state.Process {
		return state.Process{PID: pid, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, Use: use}
	}
	_, ret := d.GetProcessUtilization(0)
	mustBe(t, "without a process", ret, nvml.ERROR_NOT_FOUND)
	start := uint64(time.Now().UnixMicro())
	mustDo(t, m.PutProcess(0, process(7001, state.Use{SM: 40, Memory: 30, Encoder: 2, Decoder: 1, JPEG: 4, OFA: 5})))
	mustDo(t, m.PutProcess(0, process(7002, state.Use{SM: 9})))
	mustDo(t, m.PutProcess(0, process(7003, state.Use{}))) // idle
	mustDo(t, m.PutProcess(1, process(7004, state.Use{SM: 50})))
	list := samples(t, d, 0)
	for len(list) < 2 { // the second was put a little later
		list = samples(t, d, 0)
	}
	at := list[0].TimeStamp
	mustEqual(t, "the time is after the start, and not ahead", true, at > start && at <= uint64(time.Now().UnixMicro()))
	mustEqual(t, "samples", []nvml.ProcessUtilizationSample{
		{Pid: 7001, TimeStamp: at, SmUtil: 40, MemUtil: 30, EncUtil: 2, DecUtil: 1}, {Pid: 7002, TimeStamp: at, SmUtil: 9},
	}, list)
	next := samples(t, d, at)
	mustEqual(t, "a later sample is newer", true, next[0].TimeStamp > at)
	_, ret = d.GetProcessUtilization(uint64(time.Now().Add(time.Hour).UnixMicro()))
	mustBe(t, "samples of the future", ret, nvml.ERROR_NOT_FOUND)

	mustDo(t, m.UseProcess(0, 7002, state.Use{}))
	mustDo(t, m.DropProcess(0, 7001))
	_, ret = d.GetProcessUtilization(0)
	mustBe(t, "when all are idle or gone", ret, nvml.ERROR_NOT_FOUND)
}

// work puts the two processes that testdata/process.c asks for.
func work(t *testing.T, m *machine) {
	t.Helper()
	p := state.Process{
		PID: 7001, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU,
		Use: state.Use{SM: 40, Memory: 30, Encoder: 1, Decoder: 2, JPEG: 4, OFA: 5},
	}
	mustDo(t, m.PutProcess(0, p))
	mustDo(t, m.PutProcess(0, state.Process{PID: 7002, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, Use: state.Use{SM: 9}}))
	p.Use, p.MemoryBytes = state.Use{}, 1<<20 // another memory is no other use
	mustDo(t, m.PutProcess(0, p))
}

// nvml.h: "On MIG-enabled GPUs, querying process utilization is not
// currently supported".
func TestProcessesOfADividedGPUAreNotSampled(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 1))
	d := device(t, m.session(t), 0)
	m.divide(t, 0)
	_, ret := d.GetProcessUtilization(0)
	mustBe(t, "nvmlDeviceGetProcessUtilization", ret, nvml.ERROR_NOT_SUPPORTED)
}
