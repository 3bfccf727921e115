// Package deviceplugin measures the device plugin: the binary that ships, on
// the simulated node that this process runs in, with a kubelet over real
// sockets.
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

// Bench measures the device plugin on Node, which has 8 GPUs, each figure Runs
// times.
type Bench struct {
	Node   *simnode.Node
	Runs   int
	Report *report.Table
}

// Run measures all figures. It changes the node.
func (b *Bench) Run(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		func(ctx context.Context) error { return b.scenes(ctx, eight()) },
		func(ctx context.Context) error {
			return b.cdiSpec(ctx, "8 GPUs", report.Goal{Peer: "151–200 ms", Target: 20})
		},
		b.Node.Divide,
		func(ctx context.Context) error { return b.scenes(ctx, eightDivided()) },
		func(ctx context.Context) error {
			return b.cdiSpec(ctx, "8 GPUs × 7 MIG", report.Goal{Peer: "821 ms", Target: 40})
		},
		b.Node.Undivide,
		func(ctx context.Context) error { return b.Node.Plug(ctx, 8) },
		func(ctx context.Context) error { return b.scenes(ctx, sixteen()) },
		b.Node.Divide,
		func(ctx context.Context) error { return b.scenes(ctx, dense()) },
		b.file,
		b.transport,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	b.ratios()
	return nil
}

// ratios are what the largest node costs beside a usual one.
func (b *Bench) ratios() {
	at := latencies()[0]
	for _, figure := range []string{"Allocate", "plugin idle RSS"} {
		b.Report.AddRatio(title(figure, denseName, at), title(figure, "8 GPUs", at))
	}
	for _, size := range []string{"16 GPUs", "8 GPUs × 7 MIG"} {
		b.Report.AddRatio(title("plugin start → registered, plain", size, at), title("plugin start → registered, plain", "8 GPUs", at))
	}
}

// latencies are how long every NVML call takes: nothing, which shows what is
// ours, and about as long as on hardware.
func latencies() []time.Duration { return []time.Duration{0, 10 * time.Microsecond} }

// title names a figure.
func title(figure, scene string, latency time.Duration) string {
	return fmt.Sprintf("%s, %s, %s per call", figure, scene, latency)
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
		for _, latency := range latencies() {
			if err := b.Node.SetLatency(ctx, latency); err != nil {
				return err
			}
			if err := b.scene(ctx, s, latency); err != nil {
				return fmt.Errorf("measure %s: %w", s.name, err)
			}
		}
	}
	return b.Node.SetLatency(ctx, 0)
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
	for _, figure := range []func(context.Context, *process, scene, time.Duration) error{
		b.rss, b.back, b.allocates, b.preferred, b.hits, b.peak,
	} {
		if err := figure(ctx, p, s, latency); err != nil {
			return errors.Join(err, p.stop())
		}
	}
	return p.stop()
}

// calls returns how many NVML calls were made since it was last called, without
// those by which events are waited for: that goes on all the time.
func (b *Bench) calls(ctx context.Context) (int, error) {
	counted, err := b.Node.Calls(ctx)
	if err != nil {
		return 0, err
	}
	delete(counted, "nvmlEventSetWait_v2")
	n := 0
	for _, c := range counted {
		n += c
	}
	return n, nil
}
