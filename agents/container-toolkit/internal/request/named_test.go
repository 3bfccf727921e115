package request_test

import (
	"slices"
	"testing"

	"outrigger.dev/agents/container-toolkit/internal/request"
)

func TestNamed(t *testing.T) {
	mount := func(name string) request.Mount {
		return request.Mount{Source: "/dev/null", Destination: "/var/run/nvidia-container-devices/" + name}
	}
	for name, c := range map[string]struct {
		variable string
		mounts   []request.Mount
		want     []string
	}{
		"UUIDs in the variable":      {variable: "GPU-1, MIG-2,GPU-1", want: []string{"GPU-1", "MIG-2"}},
		"a CDI name in the variable": {variable: "nvidia.com/gpu=GPU-1", want: []string{"GPU-1"}},
		"mounts":                     {variable: "/var/run/nvidia-container-devices", mounts: []request.Mount{mount("GPU-1"), mount("imex/0")}, want: []string{"GPU-1"}},
		"mounts with CDI names":      {mounts: []request.Mount{mount("cdi/nvidia.com/gpu/GPU-1")}, want: []string{"GPU-1"}},
		"indices in the variable":    {variable: "0,1:2", want: []string{"0", "1:2"}},
		"what images name":           {variable: "all, none,void"},
		"all by a CDI name":          {variable: "nvidia.com/gpu=all"},
		"a mount of another file":    {mounts: []request.Mount{{Source: "/dev/zero", Destination: "/var/run/nvidia-container-devices/GPU-1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := request.Named(request.Container{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": c.variable}, Mounts: c.mounts})
			if !slices.Equal(got, c.want) {
				t.Errorf("it names %q, want %q", got, c.want)
			}
		})
	}
}
