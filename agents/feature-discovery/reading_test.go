package main

import (
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// A value that cannot be read costs its label. It is read again without an event.
func TestWhatCannotBeReadCostsItsLabel(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=h200")
	for _, symbol := range []string{
		"nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion_v2",
		"nvmlDeviceGetBrand", "nvmlDeviceGetArchitecture", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability",
	} {
		n.Run("set", symbol+".return=4")
	}
	p := start(t, n)
	want := simulated(t, n)
	memory := want["gpu.memory"]
	delete(want, "gpu.memory")
	p.has(want) // the version of the driver is in /proc too
	missing := []string{"gpu.memory", "gpu.compute.major", "gpu.family", "cuda.runtime.major"}
	got := p.labels()
	for _, name := range missing {
		if value, there := got[name]; there {
			t.Errorf("the label %s is %q, want none", name, value)
		}
	}
	for _, symbol := range []string{"nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetCudaComputeCapability"} {
		n.Run("set", symbol+".return=0")
	}
	p.has(map[string]string{"gpu.memory": memory, "gpu.compute.major": "9", "gpu.family": "hopper", "cuda.runtime.major": "13"})
}

// NVIDIA's feature discovery calls NVML 135 times for 8 GPUs.
func TestOneshotMakesFewCalls(t *testing.T) {
	t.Parallel()
	const limit = 135
	for name, code := range map[string]string{"a new driver": "0", "a driver without field values": "3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := simtest.New(t, "--gpus=8", "--model=h100-80")
			n.Run("set", "nvmlDeviceGetFieldValues.return="+code)
			n.Calls()
			if out, err := agenttest.Command(t, n, "--oneshot", "--publish", "stdout", "--run-root", t.TempDir()).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			total := 0
			calls := n.Calls()
			for _, times := range calls {
				total += times
			}
			if total >= limit {
				t.Errorf("NVML was called %d times, want less than %d: %v", total, limit, calls)
			}
		})
	}
}
