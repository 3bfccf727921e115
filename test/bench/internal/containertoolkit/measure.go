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

// parallel is how many containers start at once.
const parallel = 100

// figure is a kind of start: a program that an engine or a runtime runs for a container.
type figure struct {
	name string
	goal report.Goal
	// base is the name of the figure without our programs, empty for none.
	base string
	// prepare makes the start of container number i.
	prepare func(ctx context.Context, i int) (*start, error)
}

// start is a start that is measured.
type start struct {
	cmd *exec.Cmd
	// check returns an error if the program has not done its work; nil to accept its end.
	check func() error
	// clean removes what the program has left; nil for nothing.
	clean func() error
}

// group measures figures: the start of one container, and that of many at once. The figures
// take turns, so that a machine whose speed changes does not favour one of them.
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

// run starts n containers at once, and returns how long after that each had started.
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

// runAll runs all starts at once.
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
