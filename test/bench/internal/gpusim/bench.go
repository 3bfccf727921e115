// Package gpusim measures the agent that simulates GPUs: the binary that ships, on a machine without GPUs. It needs
// no simulated node.
package gpusim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/bench/internal/report"
)

// Name is the name of the agent and of its binary.
const Name = "gpu-sim-node"

const (
	// gpus is the number of GPUs of the node, and label the value of the Node's label that asks for them.
	gpus  = 8
	label = "h100-80x8"
	// leastRest is the shortest measurement at rest. The agent checks its machine every minute, so a shorter one can have
	// no check.
	leastRest = time.Minute
)

// Bench measures the agent Runs times.
type Bench struct {
	// Bin is the folder of the binaries.
	Bin  string
	Runs int
	// Rest is the duration of the measurements at rest, at least leastRest.
	Rest   time.Duration
	Report *report.Table
}

// Run measures all figures.
func (b *Bench) Run(ctx context.Context) (err error) {
	var times []time.Duration
	for range b.Runs - 1 {
		m, took, err := b.ready(ctx)
		if err != nil {
			return err
		}
		times = append(times, took)
		if err := m.close(); err != nil {
			return err
		}
	}
	m, took, err := b.ready(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	b.Report.AddTimes(fmt.Sprintf("simulator start → ready, %d GPUs", gpus), append(times, took), report.Goal{Target: 3000}, "")
	return b.atRest(ctx, m)
}

// ready starts the agent on a new machine. It returns when the machine has the GPUs, with the time until then.
func (b *Bench) ready(ctx context.Context) (*machine, time.Duration, error) {
	m, err := start(ctx, b.Bin)
	if err != nil {
		return nil, 0, err
	}
	err = m.Ready(ctx)
	took := time.Since(m.Started)
	if err == nil && !strings.Contains(m.Tail(), fmt.Sprintf("gpus=%d", gpus)) {
		err = fmt.Errorf("the agent is ready without %d GPUs:\n%s", gpus, m.Tail())
	}
	if err != nil {
		return nil, 0, errors.Join(err, m.close())
	}
	return m, took, nil
}

// atRest measures the processor time and the memory of the agent while nothing changes and no pod has a GPU.
func (b *Bench) atRest(ctx context.Context, m *machine) error {
	// When the agent is idle, the work of the start is over.
	if _, err := m.Idle(ctx); err != nil {
		return err
	}
	rest := max(b.Rest, leastRest)
	cpu, err := m.CPUDuring(func() error {
		if !pace.Pause(ctx, rest) {
			return context.Cause(ctx)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.Report.AddPerMinute(report.Row{
		Operation: fmt.Sprintf("simulator CPU in a minute at rest, %d GPUs", gpus), Value: 1000 * cpu.Seconds(), Unit: "ms", Goal: report.Goal{Target: 20},
	}, rest)
	memory, err := m.Memory()
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: fmt.Sprintf("simulator anonymous memory at rest, %d GPUs", gpus), Value: memory.Anonymous, Unit: "MiB", Goal: report.Goal{Target: 10},
	})
	b.Report.Add(report.Row{
		Operation: fmt.Sprintf("simulator resident memory at rest, %d GPUs", gpus), Value: memory.RSS, Unit: "MiB",
		Note: "with pages of the program, which the kernel shares and can drop",
	})
	return nil
}
