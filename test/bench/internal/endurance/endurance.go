// Package endurance lets an agent work for long, and looks whether something is
// left behind: memory, goroutines, files.
package endurance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/test/bench/internal/process"
)

const (
	// Rounds is how often the memory is looked at after the warm-up.
	Rounds = 40
	// warmUp is how many rounds go before.
	warmUp = 4
)

// Test is the work of one agent.
type Test struct {
	// Agent is its name, and the beginning of those of the files in Dir.
	Agent   string
	Process *process.Process
	// Round does a part of the work. The rounds are numbered from 0 on; those of
	// the warm-up, with lower numbers that end with -1, do the same.
	Round func(ctx context.Context, i int) error
	// Done says what was done from round 0 on.
	Done func() string
	// Dir is where the samples of memory go.
	Dir string
	Out io.Writer
}

// Run returns an error if something is left behind.
func (t Test) Run(ctx context.Context) error {
	for i := -warmUp; i < 0; i++ {
		if err := t.Round(ctx, i); err != nil {
			return err
		}
	}
	before, err := t.Process.Gauges(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	samples := make([]float64, Rounds)
	for i := range samples {
		if err := t.Round(ctx, i); err != nil {
			return err
		}
		m, err := t.Process.Memory()
		if err != nil {
			return err
		}
		samples[i] = m.RSS
	}
	took := time.Since(begin).Round(time.Second)
	seen := trendOf(samples)
	after, left := t.Process.Settle(ctx, before)
	fmt.Fprintf(t.Out, "%s in %s\n", t.Done(), took)
	fmt.Fprintf(t.Out, "memory      %.2f MiB → %.2f MiB, second half %+.2f MiB\n", seen.first, seen.last, seen.rise)
	fmt.Fprintf(t.Out, "goroutines  %d → %d\n", before.Goroutines, after.Goroutines)
	fmt.Fprintf(t.Out, "files       %d → %d\n", before.Files, after.Files)
	return errors.Join(seen.check(), left, t.write(samples))
}

// write keeps the samples.
func (t Test) write(samples []float64) error {
	var data []byte
	for _, v := range samples {
		data = fmt.Appendf(data, "%.2f\n", v)
	}
	return hostfs.WriteFile(filepath.Join(t.Dir, t.Agent+"-memory.txt"), data, 0o644)
}
