// Package deviceplugin measures the device plugin: the binary that ships, on a simulated node, with
// a fake kubelet over real sockets. This process runs in the node.
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

// Name is the name of the agent and of its binary.
const Name = "device-plugin"

// Bench measures the device plugin on Node, which has 8 whole GPUs. It measures each
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
		func(ctx context.Context) error { return b.scenes(ctx, eight()) },
		b.slow,
		func(ctx context.Context) error { return b.atRest(ctx, "8 GPUs", goalRest("12")) },
		func(ctx context.Context) error {
			return b.cdiSpec(ctx, "8 GPUs", report.Goal{Peer: "151–200 ms", Target: 20})
		},
		b.Node.Partition,
		func(ctx context.Context) error { return b.scenes(ctx, eightPartitioned()) },
		func(ctx context.Context) error {
			return b.Node.WithoutEvents(ctx, func() error {
				return b.atRest(ctx, "8 GPUs × 7 MIG, no events", goalRest("12"))
			})
		},
		func(ctx context.Context) error {
			return b.cdiSpec(ctx, "8 GPUs × 7 MIG", report.Goal{Peer: "821 ms", Target: 40})
		},
		b.Node.Unpartition,
		func(ctx context.Context) error { return b.Node.Plug(ctx, 8) },
		func(ctx context.Context) error { return b.scenes(ctx, sixteen()) },
		b.Node.Partition,
		func(ctx context.Context) error { return b.scenes(ctx, dense()) },
		b.file,
		b.Node.Unpartition,
		func(ctx context.Context) error { return b.Node.Unplug(ctx, 8) },
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	b.ratios()
	return nil
}

// ratios adds the costs of the largest node relative to a usual one.
func (b *Bench) ratios() {
	at := simnode.Latencies()[0]
	for _, figure := range []string{"Allocate", "plugin anonymous memory at rest"} {
		b.Report.AddRatio(report.Title(figure, denseName, at), report.Title(figure, "8 GPUs", at))
	}
	for _, size := range []string{"16 GPUs", "8 GPUs × 7 MIG"} {
		b.Report.AddRatio(report.Title("plugin start → registered, plain", size, at), report.Title("plugin start → registered, plain", "8 GPUs", at))
	}
}

func (b *Bench) scenes(ctx context.Context, scenes []scene) error {
	for _, s := range scenes {
		if s.config != "" {
			path, err := b.config(s.config)
			if err != nil {
				return err
			}
			s.args = append(s.args, "--config-file", path)
		}
		err := b.Node.AtLatencies(ctx, func(latency time.Duration) error { return b.scene(ctx, s, latency) })
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
	}
	return nil
}

// config writes a config file.
func (b *Bench) config(text string) (string, error) {
	dir, err := b.Node.Dir("config")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "config.yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func (b *Bench) scene(ctx context.Context, s scene, latency time.Duration) error {
	for _, v := range s.starts {
		if err := b.start(ctx, s, v, latency); err != nil {
			return err
		}
	}
	p, err := start(ctx, b.Node, s.args...)
	if err != nil {
		return err
	}
	for _, figure := range []func(context.Context, *plugin, scene, time.Duration) error{
		b.memory, b.measureReconnect, b.allocates, b.preferred, b.measureXIDs, b.peak,
	} {
		if err := figure(ctx, p, s, latency); err != nil {
			return errors.Join(err, p.stop())
		}
	}
	return p.stop()
}
