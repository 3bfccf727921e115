package server_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
)

// A request waits for the links of the GPUs if its answer depends on them, and for a
// driver that does not answer only a while.
func TestRequestsWaitForLinks(t *testing.T) {
	linked := &gpu.Node{GPUs: []gpu.GPU{{Index: 0}, {Index: 1}, {Index: 2}}, Links: []gpu.Link{{A: 0, B: 2, NVLinks: 4}}}
	for name, c := range map[string]struct {
		gpus int
		// known is what the driver answers, nil if it does not.
		known *gpu.Node
		waits bool
		want  []int
	}{
		"two GPUs":                           {2, linked, false, []int{0, 1}},
		"three GPUs":                         {3, linked, true, []int{0, 2}},
		"three GPUs, and the driver is gone": {3, nil, true, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			waited := false
			r = newRigWith(t, func(cfg *server.Config) {
				cfg.WaitLinks = func(ctx context.Context) {
					waited = true
					if c.known == nil {
						<-ctx.Done()
						return
					}
					r.server.Publish(gpus(c.gpus, 1), allocate.Options{Topology: allocate.NewTopology(c.known)})
				}
			})
			r.server.Publish(gpus(c.gpus, 1), allocate.Options{})
			r.run(t)
			r.healths(t, slices.Repeat([]string{ok}, c.gpus)...)
			req := &pluginapi.ContainerPreferredAllocationRequest{AllocationSize: 2}
			var ids []string
			for _, d := range gpus(c.gpus, 1).Devices {
				ids = append(ids, string(d.UUID))
			}
			req.AvailableDeviceIDs = ids
			begin := time.Now()
			resp, err := r.plugin(t).GetPreferredAllocation(agenttest.Deadline(t), &pluginapi.PreferredAllocationRequest{
				ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{req},
			})
			assert.NilError(t, err)
			want := []string{ids[c.want[0]], ids[c.want[1]]}
			if got := resp.GetContainerResponses()[0].GetDeviceIDs(); !slices.Equal(got, want) || waited != c.waits {
				t.Errorf("preferred are %v after %s, links were needed: %v; want %v, %v", got, time.Since(begin), waited, want, c.waits)
			}
		})
	}
}
