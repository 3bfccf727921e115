package resource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func TestFilter(t *testing.T) {
	n := gputest.Divided(gputest.A100, 4, []string{"3g.20gb", "2g.10gb"}, nil)
	n.GPUs[3] = gpu.GPU{Index: 3, Fault: &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: "GPU is lost"}}
	uuid := string(n.GPUs[0].MIG.Devices[1].UUID)
	const (
		other = ": the config includes only other devices"
		empty = "mig 1: its MIG mode is on and it has no MIG devices: create some (nvidia-smi mig -i 1 -cgi PROFILE -C)" +
			" or turn the mode off (nvidia-smi -i 1 -mig 0)"
		lost = "fault 3: nvmlDeviceGetUUID: GPU is lost"
	)
	for name, tc := range map[string]struct {
		include, exclude []string
		want             []string
	}{
		"no filter": {
			want: []string{"nvidia.com/gpu: 2", "nvidia.com/mig-2g.10gb: 0:1", "nvidia.com/mig-3g.20gb: 0:0", empty, lost},
		},
		"a GPU is hidden with its MIG devices": {
			exclude: []string{"0"},
			want: []string{
				"nvidia.com/gpu: 2", `excluded 0:0: the config excludes "0"`, `excluded 0:1: the config excludes "0"`, empty, lost,
			},
		},
		"by UUID, MIG index and MIG UUID": {
			exclude: []string{id + "2", "0:0", uuid},
			want: []string{
				`excluded 0:0: the config excludes "0:0"`, `excluded 0:1: the config excludes "` + uuid + `"`, empty,
				`excluded 2: the config excludes "` + id + `2"`, lost,
			},
		},
		"what cannot be advertised anyway is no fault once it is excluded": {
			exclude: []string{"1", "3"},
			want: []string{
				"nvidia.com/gpu: 2", "nvidia.com/mig-2g.10gb: 0:1", "nvidia.com/mig-3g.20gb: 0:0",
				`excluded 1: the config excludes "1"`, `excluded 3: the config excludes "3"`,
			},
		},
		"all entries that match are of use": {
			exclude: []string{"0:0", "3g.*", ""},
			want: []string{
				"nvidia.com/gpu: 2", "nvidia.com/mig-2g.10gb: 0:1", `excluded 0:0: the config excludes "0:0"`, empty, lost,
				`note: exclude "": no device of this node matches`,
			},
		},
		"by patterns of profile and model": {
			exclude: []string{"3g.*", "*L4*"},
			want: []string{
				"nvidia.com/gpu: 2", "nvidia.com/mig-2g.10gb: 0:1", `excluded 0:0: the config excludes "3g.*"`, empty, lost,
				`note: exclude "*L4*": no device of this node matches`,
			},
		},
		"a pattern of a GPU is one of its MIG devices": {
			include: []string{"0000:07:*"},
			want: []string{
				"nvidia.com/mig-2g.10gb: 0:1", "nvidia.com/mig-3g.20gb: 0:0",
				"excluded 1" + other, "excluded 2" + other, "excluded 3" + other,
			},
		},
		"exclude goes before include": {
			include: []string{"0", "2", "9"}, exclude: []string{"MIG-" + id + "0/2/0", "2"},
			want: []string{
				"nvidia.com/mig-2g.10gb: 0:1", `excluded 0:0: the config excludes "MIG-` + id + `0/2/0"`,
				"excluded 1" + other, `excluded 2: the config excludes "2"`, "excluded 3" + other,
				`note: include "9": no device of this node matches`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Config{
				MIGStrategy: config.MIGStrategyMixed,
				Filter:      config.Filter{Include: tc.include, Exclude: tc.exclude},
			}
			if diff := cmp.Diff(tc.want, short(resource.Derive(n, health.View{}, c))); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}
