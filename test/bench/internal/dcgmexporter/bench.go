// Package dcgmexporter measures the DCGM exporter: the binary that ships, on a simulated node. This
// process runs in the node.
package dcgmexporter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// Name is the name of the agent and of its binary.
const Name = "dcgm-exporter"

const (
	// interval is the time between two readings of a GPU: the agent's default.
	interval = 10 * time.Second
	// scrapes is the number of measured scrapes.
	scrapes = 200
	// gpus is the number of GPUs of the node.
	gpus = 8
	// dividedShows matches the line of the last GPU instance in /metrics.
	dividedShows = `(?m)^DCGM_FI_DEV_FB_USED\{gpu="7",.*GPU_I_ID="13"`
)

// Bench measures the exporter on Node, which has 8 whole GPUs.
type Bench struct {
	Node *simnode.Node
	Runs int
	// Rest is the duration of the measurements at rest.
	Rest   time.Duration
	Report *report.Table
}

// scene is a state of the node, with its targets.
type scene struct {
	name string
	// shows matches a line of /metrics that exists after all GPUs have been read.
	shows string
	// The targets: memory in MiB, processor time in ms a minute, and the time of a scrape
	// in ms.
	memory, cpu, scrape report.Goal
}

// Run measures all figures. At its end the node is unchanged.
func (b *Bench) Run(ctx context.Context) error {
	whole := scene{name: "8 GPUs", shows: `(?m)^gpu_up\{gpu="7",.* 1$`}
	divided := scene{
		name: "8 GPUs × 7 MIG", shows: dividedShows,
		memory: report.Goal{Peer: "250–510 MiB of RSS", Target: 12}, cpu: report.Goal{Target: 300}, scrape: report.Goal{Peer: "10 s time-outs", Target: 20},
	}
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return b.scene(ctx, whole) },
		b.Node.Partition,
		func(ctx context.Context) error { return b.scene(ctx, divided) },
		b.Node.Unpartition,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) scene(ctx context.Context, s scene) error {
	err := b.Node.AtLatencies(ctx, func(latency time.Duration) error { return b.measure(ctx, s, latency) })
	if err != nil {
		return fmt.Errorf("measure %s: %w", s.name, err)
	}
	return nil
}

func (b *Bench) measure(ctx context.Context, s scene, latency time.Duration) (err error) {
	title := func(figure string) string { return report.Title("exporter "+figure, s.name, latency) }
	var times []time.Duration
	for range b.Runs {
		p, shown, err := b.begin(ctx, s, interval)
		if err != nil {
			return err
		}
		times = append(times, shown)
		if err := p.Stop(); err != nil {
			return err
		}
	}
	b.Report.AddTimes(title("start → metrics of all GPUs"), times, report.Goal{}, "")
	p, _, err := b.begin(ctx, s, interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return errors.Join(b.atRest(ctx, p, s, title), b.scraped(ctx, p, s, title))
}

// begin starts the exporter with these flags. It returns when the metrics have all GPUs, with the
// time until then.
func (b *Bench) begin(ctx context.Context, s scene, every time.Duration, flags ...string) (*process.Process, time.Duration, error) {
	dirs := map[string]string{}
	for _, name := range []string{"run", "log"} {
		dir, err := b.Node.Dir(name)
		if err != nil {
			return nil, 0, fmt.Errorf("create folder: %w", err)
		}
		dirs[name] = dir
	}
	p, err := process.Start(ctx, process.Config{
		Line: append([]string{
			filepath.Join(b.Node.Bin, Name), "--run-root", dirs["run"], "--listen", "127.0.0.1:0",
			fmt.Sprintf("--collect-interval=%d", every.Milliseconds()),
		}, flags...),
		Log: filepath.Join(dirs["log"], Name+".log"),
	})
	if err != nil {
		return nil, 0, err
	}
	if err := p.Serving(ctx); err != nil {
		return nil, 0, errors.Join(err, p.Stop())
	}
	if err := p.Metric(ctx, s.shows); err != nil {
		return nil, 0, errors.Join(err, p.Stop())
	}
	return p, time.Since(p.Started), nil
}

// atRest measures the memory and processor time of the readings without scrapes.
func (b *Bench) atRest(ctx context.Context, p *process.Process, s scene, title func(string) string) error {
	m, err := p.Idle(ctx)
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{Operation: title("anonymous memory at rest"), Value: m.Anonymous, Unit: "MiB", Goal: s.memory, Note: m.Resident()})
	if s.cpu == (report.Goal{}) {
		return nil
	}
	before, err := p.CPU()
	if err != nil {
		return err
	}
	calls, err := b.Node.CallsDuring(ctx, b.Rest)
	if err != nil {
		return err
	}
	after, err := p.CPU()
	if err != nil {
		return err
	}
	b.Report.AddPerMinute(report.Row{
		Operation: title("CPU in a minute of readings every 10 s"), Value: float64((after - before).Microseconds()) / 1000, Unit: "ms", Goal: s.cpu,
		Note: fmt.Sprintf("%d NVML calls", calls),
	}, b.Rest)
	return nil
}

// scraped measures scrapes, one after the other, and the memory after them.
func (b *Bench) scraped(ctx context.Context, p *process.Process, s scene, title func(string) string) error {
	times := make([]time.Duration, scrapes)
	size := 0
	for i := range times {
		var err error
		if times[i], size, err = p.Scrape(ctx); err != nil {
			return err
		}
	}
	slices.Sort(times)
	b.Report.AddTimes(title("scrape, p99"), []time.Duration{report.Percentile(times, 99)}, s.scrape,
		fmt.Sprintf("median %.1f ms, %d KiB", float64(report.Median(times).Microseconds())/1000, size>>10))
	m, err := p.Memory()
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{Operation: title(fmt.Sprintf("anonymous memory after %d scrapes", scrapes)), Value: m.Anonymous, Unit: "MiB", Goal: s.memory, Note: m.Resident()})
	return nil
}
