package main

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// What nobody needs to use a GPU costs no GPU, and the registration even less.
func TestWhatCannotBeReadCostsNoGPU(t *testing.T) {
	n := simtest.New(t, "--gpus", "8")
	for _, symbol := range []string{
		"nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion_v2",
		"nvmlDeviceGetName", "nvmlDeviceGetBrand", "nvmlDeviceGetArchitecture", "nvmlDeviceGetMemoryInfo",
		"nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetTopologyCommonAncestor",
	} {
		n.Run("set", symbol+".return=4")
	}
	p := start(t, n, "--device-list-strategy", "cdi-cri")
	devices := p.wait(8, 0)
	p.Said("some values of the gpus cannot be read", "nvmlDeviceGetBrand: Insufficient Permissions")
	if got := p.prefer(devices, 4); len(got) != 4 {
		t.Errorf("preferred are %v, want 4 devices", got)
	}
}

// What fails at the start is read again, without an event and without SIGHUP.
func TestGPUsThatFailAtTheStartHeal(t *testing.T) {
	n := simtest.New(t, "--gpus", "8")
	n.Run("set", "nvmlDeviceGetMigMode.return=999")
	p := start(t, n, "--device-list-strategy", "cdi-cri")
	p.wait(0, 8)
	n.Run("set", "nvmlDeviceGetMigMode.return=0")
	p.wait(8, 0)
	p.Said("ready: devices")
}

// NVIDIA's device plugin calls NVML 158 times at its start with 8 GPUs.
func TestLinksAreReadWhenAnAllocationNeedsThem(t *testing.T) {
	const before = 158
	n := simtest.New(t, "--gpus", "8", "--model", "h100-80")
	p := start(t, n)
	devices := p.wait(8, 0)
	p.Said("ready: devices")
	total, links := 0, func(calls map[string]int) int { return calls["nvmlDeviceGetTopologyCommonAncestor"] }
	calls := calls(n)
	for _, times := range calls {
		total += times
	}
	if total >= before || links(calls) > 0 {
		t.Errorf("NVML was called %d times at the start, want less than %d, and none for links: %v", total, before, calls)
	}
	want := []string{devices[4].GetID(), devices[5].GetID()}
	for i, called := range []int{16, 0} {
		// The last four GPUs are on one NUMA node.
		got := p.prefer(slices.Concat(devices[:1], devices[4:6]), 2)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("preferred are %v, want %v", got, want)
		}
		if got := links(n.Calls()); got != called {
			t.Errorf("request %d reads %d paths between GPUs, want %d", i, got, called)
		}
	}
}

// prefer asks for size of the devices, as the kubelet does.
func (p *process) prefer(devices []*pluginapi.Device, size int32) []string {
	p.t.Helper()
	client, err := p.kubelet.Plugin(resource)
	assert.NilError(p.t, err)
	req := &pluginapi.ContainerPreferredAllocationRequest{AllocationSize: size}
	for _, d := range devices {
		req.AvailableDeviceIDs = append(req.AvailableDeviceIDs, d.GetID())
	}
	resp, err := client.GetPreferredAllocation(agenttest.Deadline(p.t), &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{req},
	})
	assert.NilError(p.t, err)
	return resp.GetContainerResponses()[0].GetDeviceIDs()
}
