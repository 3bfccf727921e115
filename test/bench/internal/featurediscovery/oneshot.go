package featurediscovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
)

// oneshot measures the agent that publishes its labels once and exits.
func (b *Bench) oneshot(ctx context.Context, s scene, latency time.Duration) error {
	var (
		times []time.Duration
		peaks []float64
		calls int
	)
	for range b.Runs {
		path, err := b.features()
		if err != nil {
			return err
		}
		if _, err := b.Node.CallCount(ctx); err != nil {
			return err
		}
		spent, err := process.Once(ctx, append([]string{
			filepath.Join(b.Node.Bin, Name), "--oneshot", "--publish", "nfd-file", "--output-file", path,
		}, s.args...)...)
		if err != nil {
			return err
		}
		if calls, err = b.Node.CallCount(ctx); err != nil {
			return err
		}
		if err := s.check(path); err != nil {
			return err
		}
		times, peaks = append(times, spent.Wall), append(peaks, spent.Peak)
	}
	b.Report.AddTimes(report.Title(s.part+" one-shot", s.name, latency), times, s.oneshot, fmt.Sprintf("%d NVML calls", calls))
	if s.calls != (report.Goal{}) {
		b.Report.Add(report.Row{
			Operation: report.Title(s.part+" one-shot, NVML calls", s.name, latency), Value: float64(calls), Unit: "calls", Goal: s.calls,
		})
	}
	b.Report.Add(report.Row{
		Operation: report.Title(s.part+" one-shot, peak memory", s.name, latency), Value: report.Median(peaks), Unit: "MiB",
		Goal: report.Goal{Peer: "48 MB", Target: oneshotPeak},
	})
	return nil
}

// features returns the path of a features file in a new folder.
func (b *Bench) features() (string, error) {
	dir, err := b.Node.Dir("features.d")
	return filepath.Join(dir, "gfd"), err
}

// check returns an error if a features file lacks the label of the scene.
func (s scene) check(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read features file: %w", err)
	}
	if n := parse(data); !s.shows(s.value)(n) {
		return fmt.Errorf("check %s: %s is %q, want %q", path, s.label, n.Labels[s.label], s.value)
	}
	return nil
}
