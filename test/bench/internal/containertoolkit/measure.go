package containertoolkit

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

// parallel is the number of containers that start at the same time.
const parallel = 100

// figure is a measured program, which an engine or a runtime runs for a container.
type figure struct {
	name string
	goal report.Goal
	// base is the name of the same figure without our programs, or empty.
	base string
	// prepare prepares the start for container number i.
	prepare func(ctx context.Context, i int) (*start, error)
}

// start is one run of a measured program.
type start struct {
	cmd *exec.Cmd
	// check returns an error if the program has not done its work. It may be nil.
	check func() error
	// clean removes the leftovers of the program. It may be nil.
	clean func() error
}

// group measures figures: the start of one container, and the start of many at the same time. The
// figures take turns, so that a change of the machine's speed does not favor one of them.
func (b *Bench) group(ctx context.Context, rounds, batches int, figures []figure) error {
	single, many, total := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]time.Duration{}
	for range rounds {
		for _, f := range figures {
			spent, err := f.run(ctx, 1)
			if err != nil {
				return err
			}
			single[f.name] = append(single[f.name], spent...)
		}
	}
	for range batches {
		for _, f := range figures {
			spent, err := f.run(ctx, parallel)
			if err != nil {
				return err
			}
			many[f.name] = append(many[f.name], spent...)
			total[f.name] = append(total[f.name], slices.Max(spent)/parallel)
		}
	}
	for _, f := range figures {
		b.Report.AddTimes(f.name, single[f.name], f.goal, p99(single[f.name]))
		b.Report.AddTimes(parallelName(f.name), many[f.name], report.Goal{}, fmt.Sprintf("%s, %s of the machine for each", p99(many[f.name]), formatMillis(report.Median(total[f.name]))))
	}
	for _, f := range figures {
		if f.base != "" {
			b.Report.AddRatio(f.name, f.base)
			b.Report.AddRatio(parallelName(f.name), parallelName(f.base))
		}
	}
	return nil
}

func parallelName(name string) string { return fmt.Sprintf("%s, %d at once", name, parallel) }

func p99(times []time.Duration) string { return "p99 " + formatMillis(report.Percentile(times, 99)) }

func formatMillis(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// run starts n containers at the same time, and returns the duration until each had started.
func (f figure) run(ctx context.Context, n int) (spent []time.Duration, err error) {
	var starts []*start
	defer func() {
		for _, s := range starts {
			if s.clean != nil {
				err = errors.Join(err, s.clean())
			}
		}
		if err != nil {
			err = fmt.Errorf("measure %s: %w", f.name, err)
		}
	}()
	for i := range n {
		s, err := f.prepare(ctx, i)
		if err != nil {
			return nil, err
		}
		starts = append(starts, s)
	}
	spent, err = runAll(starts)
	for _, s := range starts {
		if err == nil && s.check != nil {
			err = s.check()
		}
	}
	return spent, err
}

// runAll runs all starts at the same time, and returns their durations.
func runAll(starts []*start) ([]time.Duration, error) {
	spent, errs := make([]time.Duration, len(starts)), make([]error, len(starts))
	one := func(i int, begin time.Time) {
		if err := starts[i].cmd.Run(); err != nil {
			errs[i] = fmt.Errorf("%s: %w", strings.Join(starts[i].cmd.Args, " "), err)
		}
		spent[i] = time.Since(begin)
	}
	if len(starts) == 1 {
		one(0, time.Now())
		return spent, errs[0]
	}
	var begin time.Time
	var all sync.WaitGroup
	gate := make(chan struct{})
	for i := range starts {
		all.Go(func() {
			<-gate
			one(i, begin)
		})
	}
	begin = time.Now()
	close(gate)
	all.Wait()
	return spent, errors.Join(errs...)
}
