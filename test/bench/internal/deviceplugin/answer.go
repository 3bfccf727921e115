package deviceplugin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/test/bench/internal/report"
)

// ids returns the device IDs that the kubelet can request. They are in random order, because a
// kubelet does not sort them.
func (p *plugin) ids(ctx context.Context, want int) ([]string, error) {
	u, err := p.unhealthy(ctx, 0)
	if err != nil {
		return nil, err
	}
	if len(u.Devices) != want {
		return nil, fmt.Errorf("read devices: the plugin advertises %d, want %d", len(u.Devices), want)
	}
	ids := make([]string, len(u.Devices))
	for i, d := range u.Devices {
		ids[i] = d.GetID()
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same sequence in each run
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids, nil
}

func (b *Bench) allocates(ctx context.Context, p *plugin, s scene, latency time.Duration) error {
	if s.allocate == (report.Goal{}) {
		return nil
	}
	ids, err := p.ids(ctx, s.entries)
	if err != nil {
		return err
	}
	if _, err := b.Node.CallCount(ctx); err != nil {
		return err
	}
	var times []time.Duration
	for i := range 100 * b.Runs {
		begin := time.Now()
		if _, err := p.kubelet.Allocate(ctx, resource, ids[i%len(ids)]); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	calls, err := b.Node.CallCount(ctx)
	if err != nil {
		return err
	}
	b.Report.AddTimes(report.Title("Allocate", s.name, latency), times, s.allocate,
		fmt.Sprintf("%d requests of 1 device, %d NVML calls", len(times), calls))
	return nil
}

// preferred requests a preference among all devices, as the kubelet does on an empty
// node. The request of the largest node is almost one megabyte.
func (b *Bench) preferred(ctx context.Context, p *plugin, s scene, latency time.Duration) error {
	if len(s.requests) == 0 {
		return nil
	}
	ids, err := p.ids(ctx, s.entries)
	if err != nil {
		return err
	}
	for _, r := range s.requests {
		if _, err := b.Node.CallCount(ctx); err != nil {
			return err
		}
		var worst []time.Duration
		var medians []string
		for _, size := range r.sizes {
			times, err := b.prefer(ctx, p, ids, size)
			if err != nil {
				return err
			}
			medians = append(medians, fmt.Sprintf("%d: %.2f", size, report.Median(times).Seconds()*1000))
			if worst == nil || report.Median(times) > report.Median(worst) {
				worst = times
			}
		}
		calls, err := b.Node.CallCount(ctx)
		if err != nil {
			return err
		}
		note := fmt.Sprintf("%d NVML calls in all runs", calls)
		if len(r.sizes) > 1 {
			note += "; median by size " + strings.Join(medians, ", ")
		}
		b.Report.AddTimes(report.Title("GetPreferredAllocation, worst of "+r.name, s.name, latency), worst, r.goal, note)
	}
	return nil
}

// prefer returns the durations of requests that ask for a preferred set of the given size, from the
// call to the response, including gRPC in the client.
func (b *Bench) prefer(ctx context.Context, p *plugin, ids []string, size int) ([]time.Duration, error) {
	client, err := p.kubelet.Plugin(resource)
	if err != nil {
		return nil, err
	}
	req := &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: ids, AllocationSize: int32(size), //nolint:gosec // at most 160
		}},
	}
	runtime.GC()
	var times []time.Duration
	for range 3 * b.Runs {
		begin := time.Now()
		resp, err := client.GetPreferredAllocation(ctx, req)
		times = append(times, time.Since(begin))
		if err != nil {
			return nil, fmt.Errorf("prefer %d of %d devices: %w", size, len(ids), err)
		}
		if got := resp.GetContainerResponses(); len(got) != 1 || len(got[0].GetDeviceIDs()) != size {
			return nil, fmt.Errorf("prefer %d of %d devices: the answer is %v", size, len(ids), got)
		}
	}
	return times, nil
}
