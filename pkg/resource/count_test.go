package resource_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// A share with a number of devices keeps its devices when others come and go.
func TestSharesOfANumberOfDevices(t *testing.T) {
	count := func(name, as string, n int) config.Share {
		return config.Share{Name: name, Rename: as, Devices: config.Selection{Count: n}, Replicas: 2}
	}
	two := []config.Share{count(res, "shared", 2)}
	for name, c := range map[string]struct {
		shares, then []config.Share
		// gpus are the indices of the GPUs at each time.
		gpus [][]int
		want []string
	}{
		"a shared GPU leaves":                {two, two, [][]int{{0, 1, 2, 3}, {1, 2, 3}}, []string{"nvidia.com/gpu: 2 3", "shared time-slicing: 1x2", "note: " + kept}},
		"it comes back":                      {two, two, [][]int{{0, 1, 2}, {1, 2}, {0, 1, 2}}, []string{"nvidia.com/gpu: 2", "shared time-slicing: 0x2 1x2"}},
		"another GPU replaces it":            {two, two, [][]int{{0, 1, 2}, {1, 2, 3}}, []string{"nvidia.com/gpu: 2", "shared time-slicing: 1x2 3x2"}},
		"it comes back after that":           {two, two, [][]int{{0, 1, 2}, {1, 2, 3}, {0, 1, 2, 3}}, []string{"nvidia.com/gpu: 2", "shared time-slicing: 0x2 1x2 3x2"}},
		"a GPU comes that is the first":      {two, two, [][]int{{1, 2}, {0, 1, 2}}, []string{"nvidia.com/gpu: 0", "shared time-slicing: 1x2 2x2"}},
		"a GPU comes while one is missing":   {two, two, [][]int{{1}, {0, 1}}, []string{"shared time-slicing: 0x2 1x2"}},
		"the config has another number then": {two, []config.Share{count(res, "shared", 1)}, [][]int{{0, 1, 2}, {1, 2}}, []string{"nvidia.com/gpu: 2", "shared time-slicing: 1x2"}},
		"each of several shares keeps its own": {
			[]config.Share{count(res, "a", 1), count(res, "b", 1)},
			[]config.Share{count(res, "a", 1), count(res, "b", 1)},
			[][]int{{0, 1, 2}, {1, 2, 3}},
			[]string{"a time-slicing: 3x2", "b time-slicing: 1x2", "nvidia.com/gpu: 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			choices := map[gpu.UUID]string{}
			var got []string
			for i, gpus := range c.gpus {
				cfg := config.Config{Sharing: config.Sharing{Strategy: config.SharingTimeSlicing, Shares: c.shares}}
				if i > 0 {
					cfg.Sharing.Shares = c.then
				}
				n := gputest.Node(gputest.L4, 0)
				for _, at := range gpus {
					g := gputest.Node(gputest.L4, at+1).GPUs[at]
					n.GPUs = append(n.GPUs, g)
				}
				n.Choices = maps.Clone(choices)
				l := resource.NewLayout(n, cfg)
				maps.Copy(choices, l.Choices())
				got = short(l.Set(health.View{}))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

var kept = fmt.Sprintf("sharing of %s: 2 devices are configured, and 1 are shared, because the others were not shared before,"+
	" and a container may have them alone: to share them, list the devices", res)
