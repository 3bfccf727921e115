package featurediscovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

// changes measures from a change of the GPUs, and from its undoing, to the labels
// that tell of it. Times begin before the simulator is told.
func (b *Bench) changes(ctx context.Context, a *agent, s scene, latency time.Duration) (err error) {
	c := s.change
	if c.name == "" {
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
	if c.most > 0 {
		runs = min(runs, c.most)
	}
	var times []time.Duration
	for range runs {
		for _, step := range []struct{ command, value string }{{c.do, c.value}, {c.undo, s.value}} {
			begin := time.Now()
			if err := batch.Do(step.command); err != nil {
				return err
			}
			at, err := a.until(ctx, s.shows(step.value))
			if err != nil {
				return err
			}
			times = append(times, at.Sub(begin))
		}
	}
	calls, err := b.Node.CallCount(ctx)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%d NVML calls for each of %d", calls/len(times), len(times))
	if c.note != "" {
		note += "; " + c.note
	}
	b.Report.AddTimes(report.Title(c.name+" → labels in the "+a.output.name, s.name, latency), times, report.Goal{}, note)
	return nil
}
