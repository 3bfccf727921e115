// Package featurediscovery measures feature discovery: the binary that ships, on a simulated node,
// with a features file and with a fake API server over TLS. This process runs in the node.
package featurediscovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// Name is the name of the agent and of its binary.
const Name = "feature-discovery"

// Bench measures feature discovery on Node, which has 8 whole GPUs. It measures each
// figure Runs times.
type Bench struct {
	Node *simnode.Node
	Runs int
	// Rest is the duration of the measurements at rest.
	Rest   time.Duration
	Report *report.Table
}

// Run measures all figures. At its end the node is unchanged.
func (b *Bench) Run(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return b.scene(ctx, eight()) },
		func(ctx context.Context) error { return b.daemon(ctx, presence(), onNode(), 0) },
		func(ctx context.Context) error { return b.atRest(ctx, eight()) },
		func(ctx context.Context) error { return b.atRest(ctx, presence()) },
		b.Node.Partition,
		func(ctx context.Context) error { return b.scene(ctx, eightPartitioned()) },
		b.Node.Unpartition,
		func(ctx context.Context) error { return b.Node.Plug(ctx, 8) },
		func(ctx context.Context) error { return b.scene(ctx, sixteen()) },
		func(ctx context.Context) error { return b.Node.Unplug(ctx, 8) },
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) scene(ctx context.Context, s scene) error {
	err := b.Node.AtLatencies(ctx, func(latency time.Duration) error {
		if err := b.oneshot(ctx, s, latency); err != nil {
			return err
		}
		for _, o := range outputs() {
			if err := b.daemon(ctx, s, o, latency); err != nil {
				return fmt.Errorf("publish to the %s: %w", o.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("measure %s: %w", s.name, err)
	}
	return nil
}

// daemon measures the agent as a daemon, with one output.
func (b *Bench) daemon(ctx context.Context, s scene, o output, latency time.Duration) error {
	var times []time.Duration
	for range b.Runs {
		a, err := b.begin(ctx, s, o)
		if err != nil {
			return err
		}
		times = append(times, a.first.Sub(a.Started))
		if err := a.stop(); err != nil {
			return err
		}
	}
	b.Report.AddTimes(report.Title(s.part+" start → labels in the "+o.name, s.name, latency), times, report.Goal{}, "")
	a, err := b.begin(ctx, s, o)
	if err != nil {
		return err
	}
	return errors.Join(b.memory(ctx, a, s, latency), b.changes(ctx, a, s, latency), a.stop())
}

func (b *Bench) memory(ctx context.Context, a *agent, s scene, latency time.Duration) error {
	m, err := a.Idle(ctx)
	if err != nil {
		return err
	}
	b.Report.Add(report.Row{
		Operation: report.Title(s.part+" anonymous memory at rest, labels in the "+a.output.name, s.name, latency),
		Value:     m.Anonymous, Unit: "MiB", Goal: s.memory, Note: m.Resident(),
	})
	return nil
}
