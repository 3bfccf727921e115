package deviceplugin

import (
	"context"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

func (b *Bench) memory(ctx context.Context, p *plugin, s scene, latency time.Duration) error {
	if s.memory == (report.Goal{}) {
		return nil
	}
	m, err := p.Idle(ctx)
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: report.Title("plugin anonymous memory at rest", s.name, latency), Value: m.Anonymous, Unit: "MiB", Goal: s.memory, Note: m.Resident(),
	})
	return nil
}

// peak adds the peak memory of the plugin, after all requests of this run.
func (b *Bench) peak(_ context.Context, p *plugin, s scene, latency time.Duration) error {
	if s.memory == (report.Goal{}) {
		return nil
	}
	m, err := p.Memory()
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: report.Title("plugin peak memory", s.name, latency), Value: m.Peak, Unit: "MiB", Goal: s.peak,
		Note: "with all requests of this run",
	})
	return nil
}
