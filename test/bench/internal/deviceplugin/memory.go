package deviceplugin

import (
	"context"
	"fmt"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

// rssAfter is how long the plugin has been idle when its memory is read.
const rssAfter = 3 * time.Second

func (b *Bench) rss(ctx context.Context, p *process, s scene, latency time.Duration) error {
	if s.rss == (report.Goal{}) {
		return nil
	}
	timer := time.NewTimer(rssAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	rss, err := p.status("VmRSS")
	if err != nil {
		return err
	}
	anon, err := p.status("RssAnon")
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: title("plugin idle RSS", s.name, latency), Value: rss, Unit: "MiB", Goal: s.rss,
		Note: fmt.Sprintf("%.1f MiB of it anonymous, the rest mapped from files", anon),
	})
	return nil
}

// peak is the most that the plugin took, with all that was asked of it before.
func (b *Bench) peak(_ context.Context, p *process, s scene, latency time.Duration) error {
	if s.rss == (report.Goal{}) {
		return nil
	}
	peak, err := p.status("VmHWM")
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: title("plugin peak memory", s.name, latency), Value: peak, Unit: "MiB", Goal: s.peak,
		Note: "with all requests of this run",
	})
	return nil
}
