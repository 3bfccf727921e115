package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

// start measures the time from the start of the process to its registration, the NVML calls and the
// processor time of the start, and the time from SIGTERM to the exit.
func (b *Bench) start(ctx context.Context, s scene, v variant, latency time.Duration) error {
	var (
		times, spent, stops []time.Duration
		calls               int
	)
	for range b.Runs {
		if _, err := b.Node.CallCount(ctx); err != nil {
			return err
		}
		p, err := start(ctx, b.Node, append(v.args, s.args...)...)
		if err != nil {
			return err
		}
		cpu, err := p.CPUClock()
		seen, regErr := p.registered(ctx, 1)
		if err = errors.Join(err, regErr); err == nil {
			calls, err = b.Node.CallCount(ctx)
		}
		end := time.Now()
		err = errors.Join(err, p.Stop())
		stops = append(stops, time.Since(end))
		p.kubelet.Stop()
		if err != nil {
			return err
		}
		times, spent = append(times, seen.Sub(p.Started)), append(spent, cpu)
	}
	title := func(figure string) string { return report.Title(figure+", "+v.name, s.name, latency) }
	b.Report.AddTimes(title("plugin start → registered"), times, v.goal, fmt.Sprintf("%d NVML calls", calls))
	if s.calls == (report.Goal{}) {
		return nil
	}
	b.Report.Add(report.Row{Operation: title("plugin NVML calls at start"), Value: float64(calls), Unit: "calls", Goal: s.calls})
	b.Report.AddTimes(title("plugin CPU time, start → devices listed"), spent, s.cpu, "")
	b.Report.AddTimes(title("plugin SIGTERM → exit"), stops, goalStop(), "")
	return nil
}

// measureReconnect measures the time from the kubelet's new socket to the registration.
func (b *Bench) measureReconnect(ctx context.Context, p *plugin, s scene, latency time.Duration) error {
	if s.back == (report.Goal{}) {
		return nil
	}
	if _, err := b.Node.CallCount(ctx); err != nil {
		return err
	}
	var times []time.Duration
	for range b.Runs {
		p.kubelet.Stop()
		n := len(p.kubelet.Registrations())
		if err := p.kubelet.Start(); err != nil {
			return err
		}
		begin := time.Now()
		seen, err := p.registered(ctx, n+1)
		if err != nil {
			return err
		}
		times = append(times, max(0, seen.Sub(begin)))
		if _, err := p.unhealthy(ctx, 0); err != nil {
			return err
		}
	}
	calls, err := b.Node.CallCount(ctx)
	if err != nil {
		return err
	}
	b.Report.AddTimes(report.Title("kubelet socket back → registered", s.name, latency), times, s.back,
		fmt.Sprintf("%d NVML calls in all runs", calls))
	return nil
}
