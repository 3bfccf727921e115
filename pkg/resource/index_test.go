package resource_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// fileConfig returns the config in a file.
func fileConfig(t *testing.T, name string) config.Config {
	t.Helper()
	data, err := os.ReadFile("testdata/index/" + name)
	assert.NilError(t, err)
	c, err := config.Load(config.Explicit{}, data, name)
	assert.NilError(t, err)
	return c
}

// resources returns the resource of each GPU by UUID, or the code of why it has none.
func resources(set resource.Set) map[gpu.UUID]string {
	out := map[gpu.UUID]string{}
	for _, r := range set.Resources {
		for _, d := range r.Devices {
			out[d.UUID] = r.Name
		}
	}
	for _, u := range set.Unlisted {
		out[u.UUID] = string(u.Kind)
	}
	return out
}

const uuid = "GPU-00000000-0000-4000-8000-00000000000"

// An index in a config is the GPU that has it, whatever NVML lists there now.
func TestConfigByIndexAfterAGPUHasLeft(t *testing.T) {
	for file, want := range map[string]map[gpu.UUID]string{
		"exclude-3.yaml":         {uuid + "1": "nvidia.com/gpu", uuid + "2": "nvidia.com/gpu", uuid + "3": "excluded"},
		"sharing-devices-0.yaml": {uuid + "1": "nvidia.com/gpu", uuid + "2": "nvidia.com/gpu", uuid + "3": "nvidia.com/gpu"},
	} {
		t.Run(file, func(t *testing.T) {
			n := gputest.Node(gputest.A100, 4)
			n.GPUs = n.GPUs[1:]
			for i := range n.GPUs {
				n.GPUs[i].Shifted = true
			}
			set := resource.Derive(n, health.View{}, fileConfig(t, file))
			if d := cmp.Diff(want, resources(set)); d != "" {
				t.Errorf("resources (-want +got):\n%s", d)
			}
			for _, d := range set.Resources[0].Devices {
				if !d.Shifted || d.Reused {
					t.Errorf("device %+v, want shifted", d)
				}
			}
		})
	}
}

// After a reboot, an index in the config that named another GPU before means neither GPU.
func TestConfigByIndexAfterAReboot(t *testing.T) {
	const file = "/var/lib/outrigger/index/gpu-index"
	for name, c := range map[string]struct {
		config config.Config
		want   map[gpu.UUID]string
	}{
		"no index":            {config.Config{Filter: config.Filter{Exclude: []string{uuid + "2"}}}, map[gpu.UUID]string{uuid + "0": resource.GPU, uuid + "1": resource.GPU, uuid + "2": "excluded"}},
		"an index that moved": {fileConfig(t, "exclude-3.yaml"), map[gpu.UUID]string{uuid + "0": resource.GPU, uuid + "1": resource.GPU, uuid + "2": "index"}},
		"an index that is the same GPU": {
			config.Config{Filter: config.Filter{Include: []string{"0", uuid + "1"}}},
			map[gpu.UUID]string{uuid + "0": resource.GPU, uuid + "1": resource.GPU, uuid + "2": "excluded"},
		},
		"an index that names another GPU": {
			config.Config{Filter: config.Filter{Exclude: []string{"2"}}}, map[gpu.UUID]string{uuid + "0": resource.GPU, uuid + "1": "index", uuid + "2": "index"},
		},
		"a MIG device": {
			config.Config{Filter: config.Filter{Exclude: []string{"1:0"}}}, map[gpu.UUID]string{uuid + "0": resource.GPU, uuid + "1": "index", uuid + "2": resource.GPU},
		},
		"a share": {
			config.Config{Sharing: config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{
				{Name: resource.GPU, Rename: "nvidia.com/shared", Replicas: 2, Devices: config.Selection{Refs: []config.Ref{"0", "2"}}},
			}}},
			map[gpu.UUID]string{uuid + "0": "nvidia.com/shared", uuid + "1": "index", uuid + "2": "index"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The GPU with the index 1 has gone with a reboot: 2 is 1 now, and 3 is 2.
			n := gputest.Node(gputest.A100, 3)
			n.GPUs[1].Earlier = &gpu.Earlier{Indices: []int{2}, UUID: uuid + "9", File: file}
			n.GPUs[2].Earlier = &gpu.Earlier{Indices: []int{3}, UUID: uuid + "1", File: file}
			set := resource.Derive(n, health.View{}, c.config)
			if d := cmp.Diff(c.want, resources(set)); d != "" {
				t.Errorf("resources (-want +got):\n%s", d)
			}
			for _, u := range set.Unlisted {
				if u.Kind == cause.DeviceIndex && (!strings.Contains(u.Reason, file) || !strings.Contains(u.Reason, "by UUID")) {
					t.Errorf("the reason has no fix: %s", u.Reason)
				}
			}
		})
	}
}
