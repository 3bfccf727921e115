package containertoolkit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

// generate measures "nvidia-ctk cdi generate" from its start to its end, including the child
// process that calls NVML. The spec must have a device named last.
func (b *Bench) generate(ctx context.Context, scene, last string, goal report.Goal) error {
	return b.Node.AtLatencies(ctx, func(latency time.Duration) error {
		var times []time.Duration
		calls := 0
		for range b.Runs {
			dir, err := b.Node.Dir("cdi")
			if err != nil {
				return err
			}
			if _, err := b.Node.CallCount(ctx); err != nil {
				return err
			}
			file := filepath.Join(dir, "nvidia.json")
			spent, err := timed(ctx, filepath.Join(b.Node.Bin, "nvidia-ctk"), "cdi", "generate", "--nvidia-cdi-hook-path=", "--output", file)
			if err != nil {
				return err
			}
			if calls, err = b.Node.CallCount(ctx); err != nil {
				return err
			}
			if err := check(file, last); err != nil {
				return err
			}
			times = append(times, spent)
		}
		note := fmt.Sprintf("two processes, %d NVML calls", calls)
		b.Report.AddTimes(report.Title("nvidia-ctk cdi generate", scene, latency), times, goal, note)
		return nil
	})
}

// timed runs a program to its end and returns the duration.
func timed(ctx context.Context, program string, args ...string) (time.Duration, error) {
	begin := time.Now()
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("run %s: %w: %s", program, err, out)
	}
	return time.Since(begin), nil
}

// check returns an error if the spec in a file lacks a device.
func check(file, device string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read CDI spec: %w", err)
	}
	var spec struct {
		Devices []struct{ Name string }
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return fmt.Errorf("read CDI spec %s: %w", file, err)
	}
	if !slices.ContainsFunc(spec.Devices, func(d struct{ Name string }) bool { return d.Name == device }) {
		return fmt.Errorf("check %s: it lacks device %s", file, device)
	}
	return nil
}
