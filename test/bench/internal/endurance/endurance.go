// Package endurance runs an agent under load for a long time and checks for leaks of
// memory, goroutines and files.
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
	// Rounds is the number of rounds, and memory samples, after the warm-up.
	Rounds = 40
	// warmUp is the number of rounds of the warm-up.
	warmUp = 4
)

// Test is the endurance test of one agent.
type Test struct {
	// Agent is the name of the agent, and the prefix of the files in Dir.
	Agent   string
	Process *process.Process
	// Round does one part of the work. The rounds are numbered from 0. The warm-up has the same
	// rounds, with the negative numbers up to -1.
	Round func(ctx context.Context, i int) error
	// Memory returns the memory of the process for a round that has ended, in MiB. If Memory is
	// nil, the current RSS is used.
	Memory func() (float64, error)
	// Done describes the work since round 0.
	Done func() string
	// Dir is the folder for the memory samples.
	Dir string
	Out io.Writer
}

// Run runs the test and returns an error if the agent leaks something.
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
		if samples[i], err = t.memory(); err != nil {
			return err
		}
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

func (t Test) memory() (float64, error) {
	if t.Memory != nil {
		return t.Memory()
	}
	m, err := t.Process.Memory()
	return m.RSS, err
}

// write writes the samples to a file.
func (t Test) write(samples []float64) error {
	var data []byte
	for _, v := range samples {
		data = fmt.Appendf(data, "%.2f\n", v)
	}
	return hostfs.WriteFile(filepath.Join(t.Dir, t.Agent+"-memory.txt"), data, 0o644)
}
