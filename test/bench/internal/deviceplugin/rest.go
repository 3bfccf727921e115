package deviceplugin

import (
	"context"
	"errors"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

func goalRest(peer string) report.Goal { return report.Goal{Peer: peer, Target: 12} }

// atRest measures the processor time and the number of NVML calls of the plugin while no GPU
// changes. The count includes calls that wait for events.
func (b *Bench) atRest(ctx context.Context, name string, goal report.Goal) (err error) {
	p, err := start(ctx, b.Node, "--mig-strategy", "single")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	// When the plugin is idle, the work of the start is over.
	if _, err := p.Idle(ctx); err != nil {
		return err
	}
	total := 0
	cpu, err := p.CPUDuring(func() (err error) {
		total, err = b.Node.CallsDuring(ctx, b.Rest)
		return err
	})
	if err != nil {
		return err
	}
	b.Report.AddPerMinute(report.Row{
		Operation: "plugin CPU in a minute at rest, " + name, Value: 1000 * cpu.Seconds(), Unit: "ms", Goal: report.Goal{Target: 20},
	}, b.Rest)
	b.Report.AddPerMinute(report.Row{
		Operation: "plugin NVML calls in a minute at rest, " + name, Value: float64(total), Unit: "calls", Goal: goal,
	}, b.Rest)
	return nil
}

// slow measures the start on a slow driver.
func (b *Bench) slow(ctx context.Context) error {
	s := eight()[0]
	return b.Node.AtLatency(ctx, slowCall, func() error {
		return b.start(ctx, s, variant{"plain", nil, report.Goal{Peer: "23–30 ms", Target: 22}}, slowCall)
	})
}

// slowCall is the duration of an NVML call on a slow driver.
const slowCall = 100 * time.Microsecond
