package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/bench/internal/report"
)

const (
	// interval is the time between two readings of the DaemonSets.
	interval = 250 * time.Millisecond
	// settled is how long a roll-out has to stay complete. A program that installs in stages pauses
	// between them.
	settled = 20 * time.Second
)

// outcome is the result of a complete roll-out.
type outcome struct {
	// created is the time when the last DaemonSet was created. ready is the time when the last pod
	// became ready.
	created, ready time.Time
	// cpu and memory are the processor time and the RSS in MiB of the program when all pods were
	// ready.
	cpu    time.Duration
	memory float64
	// sets are the DaemonSets.
	sets []daemonSet
	// machine is the load of the machine when all pods were ready.
	machine load
}

// rollout waits until the program's DaemonSets have a ready pod on each node where pods can get
// ready.
func (b *Bench) rollout(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Limit, fmt.Errorf("not within %s", b.Limit))
	defer cancel()
	var o outcome
	for said := time.Now(); ; {
		sets, err := b.scene.daemonSets(ctx)
		if err != nil {
			return o, err
		}
		now, cpu, err := b.now()
		if err != nil {
			return o, err
		}
		if len(sets) > len(o.sets) {
			o.created = now
		}
		o.sets = sets
		switch complete := len(sets) > 0 && missing(sets, b.NeverReady) == 0; {
		case !complete:
			o.ready = time.Time{}
		case o.ready.IsZero():
			memory, err := b.program.Memory()
			if err != nil {
				return o, err
			}
			o.ready, o.cpu, o.memory = now, cpu, memory.RSS
			if o.machine, err = machineLoad(); err != nil {
				return o, err
			}
		case now.Sub(o.ready) > settled:
			return o, nil
		}
		if now.Sub(said) > 10*time.Second {
			said = now
			fmt.Fprintf(b.Progress, "%6.1f s  %s\n", now.Sub(b.program.Started).Seconds(), describe(sets))
		}
		if !pace.Pause(ctx, interval) {
			return o, fmt.Errorf("wait for the roll-out: %w: %s", context.Cause(ctx), describe(sets))
		}
	}
}

// missing returns the number of pods that are not ready yet, except pods that never get ready.
func missing(sets []daemonSet, neverReady int) int {
	total := 0
	for _, s := range sets {
		if s.Status.ObservedGeneration < s.Metadata.Generation {
			total++
		}
		total += max(0, s.Status.Desired-min(s.Status.Desired, neverReady)-s.Status.Ready)
	}
	return total
}

func describe(sets []daemonSet) string {
	words := make([]string, len(sets))
	for i, s := range sets {
		words[i] = fmt.Sprintf("%s %d/%d", s.Metadata.Name, s.Status.Ready, s.Status.Desired)
	}
	if len(words) == 0 {
		return "no DaemonSet"
	}
	return strings.Join(words, ", ")
}

// reportRollout reports a roll-out. before is the load of the machine at its start.
func (b *Bench) reportRollout(o outcome, before load) error {
	seen, err := b.scene.requests(b.program.Started, o.ready)
	if err != nil {
		return err
	}
	memory, err := b.program.Memory()
	if err != nil {
		return err
	}
	since := func(t time.Time) float64 { return t.Sub(b.program.Started).Seconds() }
	b.add("start to the last DaemonSet", report.Row{Value: since(o.created), Unit: "s", Note: fmt.Sprintf("%d DaemonSets", len(o.sets))})
	goals := b.goals()
	b.add("start to all pods ready", report.Row{
		Value: since(o.ready), Unit: "s", Goal: goals.rollout, Note: describe(o.sets) + "; " + o.machine.since(before, o.cpu),
	})
	b.add("CPU time until then", report.Row{Value: o.cpu.Seconds(), Unit: "s", Goal: goals.cpu})
	b.add("requests until then", report.Row{Value: float64(seen.total), Unit: "calls", Goal: goals.requests, Note: seen.String()})
	b.add("memory then", report.Row{Value: o.memory, Unit: "MiB", Goal: goals.memory})
	b.add("memory, peak", report.Row{Value: memory.Peak, Unit: "MiB", Goal: goals.memory})
	return nil
}

// reportUnfinished reports the figures so far of a roll-out that does not complete.
func (b *Bench) reportUnfinished() error {
	now, cpu, err := b.now()
	if err != nil {
		return err
	}
	memory, err := b.program.Memory()
	if err != nil {
		return err
	}
	seen, err := b.scene.requests(b.program.Started, now)
	if err != nil {
		return err
	}
	goals, note := b.goals(), fmt.Sprintf("not complete after %.0f s", now.Sub(b.program.Started).Seconds())
	b.add("CPU time so far", report.Row{Value: cpu.Seconds(), Unit: "s", Goal: goals.cpu, Note: note})
	b.add("requests so far", report.Row{Value: float64(seen.total), Unit: "calls", Goal: goals.requests, Note: seen.String()})
	b.add("memory so far, peak", report.Row{Value: memory.Peak, Unit: "MiB", Goal: goals.memory})
	return nil
}

// The metrics of the orchestrator: the number of its passes, and their time in seconds.
const passes, passSeconds = "outrigger_orchestrator_pass_seconds_count", "outrigger_orchestrator_pass_seconds_sum"

// reportPasses reports the mean time of the orchestrator's passes. Other programs do not have this
// metric.
func (b *Bench) reportPasses(ctx context.Context) error {
	if filepath.Base(b.Line[0]) != Name {
		return nil
	}
	values, err := b.program.Values(ctx, passes, passSeconds)
	if err != nil {
		return err
	}
	if values[0] == 0 {
		return errors.New("read /metrics: no pass was counted")
	}
	b.add("time of a pass, mean", report.Row{Value: 1000 * values[1] / values[0], Unit: "ms", Note: fmt.Sprintf("%.0f passes, their writes included", values[0])})
	return nil
}
