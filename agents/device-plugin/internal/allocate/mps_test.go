package allocate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/resource"
)

// A program is a client of one daemon: that of its GPU, unless it can have several GPUs.
func TestAContainerHasTheFoldersOfItsDaemon(t *testing.T) {
	res := resource.Resource{Name: resource.GPU, Sharing: config.SharingMPS, Devices: []resource.Device{
		{UUID: "GPU-a", Replicas: 4, MPS: true}, {UUID: "GPU-b", Replicas: 4, GPU: 1, MPS: true},
	}}
	for one, folder := range map[bool]string{true: "GPU-b", false: "nvidia.com/gpu"} {
		res.FailRequestsGreaterThanOne = one
		a := allocate.New(res, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}, MPSRoot: "/run/nvidia/mps"})
		resp, err := a.Allocate([]string{"GPU-b::2"}, token)
		assert.NilError(t, err)
		got := map[string]string{}
		for _, m := range resp.GetMounts() {
			got[m.GetContainerPath()] = m.GetHostPath()
		}
		want := map[string]string{
			"/mps/nvidia.com/gpu/pipe": "/run/nvidia/mps/" + folder + "/pipe", "/dev/shm": "/run/nvidia/mps/" + folder + "/shm",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("mounts if one replica is the most: %v (-want +got):\n%s", one, diff)
		}
	}
}

func TestOnlyADeviceThatMPSSharesHasADaemon(t *testing.T) {
	a := allocate.New(resource.Resource{Name: resource.GPU, Sharing: config.SharingMPS, Devices: []resource.Device{
		{UUID: "GPU-a", Replicas: 4, MPS: true}, {UUID: "GPU-b", Replicas: 1, GPU: 1}, {UUID: "GPU-c", Replicas: 1, GPU: 2, MPS: true},
	}}, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}, MPSRoot: "/run/nvidia/mps"})
	for id, want := range map[string]bool{"GPU-a::1": true, "GPU-b": false, "GPU-c": true} {
		resp, err := a.Allocate([]string{id}, token)
		assert.NilError(t, err)
		if _, got := resp.GetEnvs()["CUDA_MPS_PIPE_DIRECTORY"]; got != want || (len(resp.GetMounts()) > 0) != want {
			t.Errorf("%s is a client of the daemon: %v, want %v", id, got, want)
		}
	}
}
