package featurediscovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

// changes measures the time from each change of the GPUs to the labels that show it. A
// time begins before the command to the simulator. Most of the time until a poll finds a change is a pause, which does not
// depend on the latency, so such changes are measured without latency only.
func (b *Bench) changes(ctx context.Context, a *agent, s scene, latency time.Duration) (err error) {
	if len(s.changes) == 0 || s.polled && latency > 0 {
		return nil
	}
	batch, err := b.Node.Batch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	if _, err := b.Node.CallCount(ctx); err != nil {
		return err
	}
	runs := b.Runs
	if s.polled {
		runs = min(runs, polledRuns)
	}
	times := make([][]time.Duration, len(s.changes))
	for range runs {
		for i, c := range s.changes {
			begin := time.Now()
			if err := batch.Do(c.command); err != nil {
				return err
			}
			at, err := a.until(ctx, s.shows(c.value))
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			times[i] = append(times[i], at.Sub(begin))
		}
	}
	// Include the NVML calls that the last change causes later.
	if _, err := a.Idle(ctx); err != nil {
		return err
	}
	calls, err := b.Node.CallCount(ctx)
	if err != nil {
		return err
	}
	for i, c := range s.changes {
		note := fmt.Sprintf("%d NVML calls a change", calls/runs/len(s.changes))
		if c.note != "" {
			note += "; " + c.note
		}
		b.Report.AddTimes(report.Title(c.name+" → labels in the "+a.output.name, s.name, latency), times[i], report.Goal{}, note)
	}
	return nil
}
