package allocate_test

import (
	"testing"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/resource"
)

func TestOnlyADeviceThatMPSSharesHasADaemon(t *testing.T) {
	a := allocate.New(resource.Resource{Name: resource.GPU, Sharing: config.SharingMPS, Devices: []resource.Device{
		{UUID: "GPU-a", Replicas: 4, MPS: true}, {UUID: "GPU-b", Replicas: 1, GPU: 1}, {UUID: "GPU-c", Replicas: 1, GPU: 2, MPS: true},
	}}, allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar}, MPSRoot: "/run/nvidia/mps"})
	for id, want := range map[string]bool{"GPU-a::1": true, "GPU-b": false, "GPU-c": true} {
		resp, err := a.Allocate([]string{id}, token)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := resp.GetEnvs()["CUDA_MPS_PIPE_DIRECTORY"]; got != want || (len(resp.GetMounts()) > 0) != want {
			t.Errorf("%s is a client of the daemon: %v, want %v", id, got, want)
		}
	}
}
