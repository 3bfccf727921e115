// Package migmanager measures the MIG manager: the binary that ships, on a simulated node. This
// process runs in the node.
package migmanager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// Name is the name of the agent and of its binary.
const Name = "mig-manager"

// layouts is a config in the format of mig-parted for the node, whose GPUs are of the model
// a100-40.
const layouts = `version: v1
mig-configs:
  empty:
  - {devices: all, mig-enabled: true, mig-devices: {}}
  sevenths:
  - {devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 7}}
  balanced:
  - {devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}}
  impossible:
  - {devices: all, mig-enabled: true, mig-devices: {"4g.20gb": 2}}
`

// Bench measures the commands of the manager on Node, which has 8 whole GPUs.
type Bench struct {
	Node   *simnode.Node
	Runs   int
	Report *report.Table

	config, state string
}

// Run measures all figures. At its end the node is unchanged.
func (b *Bench) Run(ctx context.Context) (err error) {
	dir, err := b.Node.Dir("mig")
	if err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	b.config, b.state = filepath.Join(dir, "config.yaml"), filepath.Join(dir, "state")
	if err := os.WriteFile(b.config, []byte(layouts), 0o600); err != nil {
		return err
	}
	if err := b.Node.SetMIG(ctx, "all", "on"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Node.Unpartition(context.WithoutCancel(ctx))) }()
	return b.Node.AtLatencies(ctx, func(latency time.Duration) error {
		for _, part := range []func(context.Context, time.Duration) error{b.changes, b.unchanged, b.impossible} {
			if err := part(ctx, latency); err != nil {
				return err
			}
		}
		return nil
	})
}

// changes measures changes of the layout of all GPUs.
func (b *Bench) changes(ctx context.Context, latency time.Duration) error {
	for _, change := range []struct {
		from, to, name string
		goal           report.Goal
	}{
		{"empty", "sevenths", "apply, empty → 56 MIG devices", report.Goal{Peer: "1.06 s", Target: 200}},
		{"sevenths", "balanced", "apply, 56 → 32 MIG devices", report.Goal{}},
	} {
		var times []time.Duration
		var calls map[string]int
		for range b.Runs {
			if _, err := process.Once(ctx, b.line("apply", change.from)...); err != nil {
				return err
			}
			spent, called, err := b.once(ctx, "apply", change.to)
			if err != nil {
				return err
			}
			if _, err := process.Once(ctx, b.line("assert", change.to)...); err != nil {
				return err
			}
			times, calls = append(times, spent.Wall), called
		}
		b.Report.AddTimes(report.Title("mig "+change.name, "8 GPUs", latency), times, change.goal, summary(calls))
	}
	return nil
}

// once runs a command for a layout, and returns its NVML calls.
func (b *Bench) once(ctx context.Context, command, layout string) (spent process.Spent, calls map[string]int, err error) {
	if _, err = b.Node.Calls(ctx); err != nil {
		return spent, nil, err
	}
	if spent, err = process.Once(ctx, b.line(command, layout)...); err != nil {
		return spent, nil, err
	}
	calls, err = b.Node.Calls(ctx)
	return spent, calls, err
}

// unchanged measures commands for the layout that the GPUs already have.
func (b *Bench) unchanged(ctx context.Context, latency time.Duration) error {
	if _, err := process.Once(ctx, b.line("apply", "sevenths")...); err != nil {
		return err
	}
	for _, command := range []string{"apply", "assert"} {
		var (
			times []time.Duration
			peak  float64
			calls map[string]int
		)
		for range b.Runs {
			spent, called, err := b.once(ctx, command, "sevenths")
			if err != nil {
				return err
			}
			if written(called) > 0 {
				return fmt.Errorf("%s of a layout that is in place changed something: %s", command, summary(called))
			}
			times, peak, calls = append(times, spent.Wall), max(peak, spent.Peak), called
		}
		b.Report.AddTimes(report.Title("mig "+command+", no change", "56 MIG devices", latency), times,
			report.Goal{Peer: "0.84 s", Target: 30}, fmt.Sprintf("%s, peak %.1f MiB", summary(calls), peak))
	}
	return nil
}

// impossible measures the time until the manager rejects a layout that no GPU supports.
func (b *Bench) impossible(ctx context.Context, latency time.Duration) error {
	var times []time.Duration
	var calls map[string]int
	for range b.Runs {
		if _, err := b.Node.Calls(ctx); err != nil {
			return err
		}
		line := b.line("apply", "impossible")
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Stderr = &stderr
		begin := time.Now()
		err := cmd.Run()
		times = append(times, time.Since(begin))
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
			return fmt.Errorf("%s: %w, want exit code 1: %s", strings.Join(line, " "), err, stderr.String())
		}
		if calls, err = b.Node.Calls(ctx); err != nil {
			return err
		}
		if n := written(calls); n > 0 {
			return fmt.Errorf("apply of a layout that is not possible changed something: %s", summary(calls))
		}
	}
	b.Report.AddTimes(report.Title("mig apply, infeasible", "56 MIG devices", latency), times,
		report.Goal{Peer: "1.2 s, GPU wiped", Target: 30}, summary(calls))
	return nil
}

func (b *Bench) line(command, layout string) []string {
	line := []string{filepath.Join(b.Node.Bin, Name), command, "--config-file", b.config, "--selected-config", layout}
	if command == "apply" {
		line = append(line, "--state-dir", b.state)
	}
	return line
}

// written returns the number of calls that change the MIG mode or the layout of a GPU.
func written(calls map[string]int) int {
	n := 0
	for symbol, times := range calls {
		for _, change := range []string{
			"nvmlDeviceSetMigMode", "nvmlDeviceCreateGpuInstance", "nvmlGpuInstanceCreateComputeInstance",
			"nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy",
		} {
			if strings.HasPrefix(symbol, change) {
				n += times
			}
		}
	}
	return n
}

func summary(calls map[string]int) string {
	total := 0
	for _, times := range calls {
		total += times
	}
	return fmt.Sprintf("%d NVML calls, %d of them changes", total, written(calls))
}
