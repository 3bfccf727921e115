package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/test/bench/internal/report"
)

// transport measures the messages of the largest node with a plugin that does nothing
// with them. The plugin's own figures include this time.
func (b *Bench) transport(ctx context.Context) (err error) {
	const entries, unhealthy = 11200, 700
	bench, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find bench: %w", err)
	}
	p, err := run(ctx, b.Node, func(socket string) []string {
		return []string{bench, "blank", "--kubelet-socket", socket, "--devices", fmt.Sprint(entries), "--unhealthy", fmt.Sprint(unhealthy)}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	ids, err := p.ids(ctx, entries)
	if err != nil {
		return err
	}
	asked, err := b.prefer(ctx, p, ids, 0)
	if err != nil {
		return err
	}
	b.Report.AddTimes("GetPreferredAllocation, transport alone, "+denseName, asked, report.Goal{}, "the same request, not decoded; included in the figure above")
	client, err := p.kubelet.Plugin(resource)
	if err != nil {
		return err
	}
	var sent []time.Duration
	for range 2 * b.Runs {
		runtime.GC()
		for _, n := range []int{unhealthy, 0} {
			begin := time.Now()
			if _, err := client.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{}); err != nil {
				return err
			}
			u, err := p.unhealthy(ctx, n)
			if err != nil {
				return err
			}
			sent = append(sent, u.At.Sub(begin))
		}
	}
	b.Report.AddTimes("list at the kubelet, transport alone, "+denseName, sent, report.Goal{}, "with the call that triggers it; included in the figures above")
	return nil
}
