package deviceplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/test/bench/internal/report"
)

// fileName is the name of the scene with a snapshot file instead of a driver.
const fileName = denseName + " of a snapshot"

// file measures the largest node with a snapshot file in place of a driver, so that only the plugin
// uses time.
func (b *Bench) file(ctx context.Context) error {
	dir, err := b.Node.Dir("snapshot")
	if err != nil {
		return err
	}
	config, err := b.config(replicated(100))
	if err != nil {
		return err
	}
	snapshot := filepath.Join(dir, "node.json")
	node := gputest.Node(gputest.A100, 16)
	for i := range node.GPUs {
		gputest.Partition(node, i, slices.Repeat([]string{"1g.5gb"}, 7)...)
	}
	if err := writeNode(snapshot, node); err != nil {
		return err
	}
	s := dense()[0]
	s.name, s.hits = fileName, nil
	s.args = append(s.args, "--config-file", config, "--gpu-source", "file:"+snapshot)
	if err := b.scene(ctx, s, 0); err != nil {
		return fmt.Errorf("measure %s: %w", s.name, err)
	}
	p, err := start(ctx, b.Node, s.args...)
	if err != nil {
		return err
	}
	return errors.Join(b.faults(ctx, p, node, snapshot), p.stop())
}

// faults measures the time from a GPU's fault in the snapshot file, and from its recovery, to the
// list at the kubelet.
func (b *Bench) faults(ctx context.Context, p *plugin, node *gpu.Node, snapshot string) error {
	var down, up []time.Duration
	fake := gputest.New(node)
	for i := range b.Runs {
		id := node.GPUs[i%len(node.GPUs)].UUID
		for _, step := range []struct {
			change    func(gpu.UUID)
			unhealthy int
			times     *[]time.Duration
		}{
			{fake.Lose, 700, &down},
			{fake.Heal, 0, &up},
		} {
			step.change(id)
			now, err := fake.Snapshot(ctx)
			if err != nil {
				return err
			}
			begin := time.Now()
			if err := writeNode(snapshot, now); err != nil {
				return err
			}
			u, err := p.unhealthy(ctx, step.unhealthy)
			if err != nil {
				return err
			}
			*step.times = append(*step.times, u.At.Sub(begin))
		}
	}
	b.Report.AddTimes(report.Title("GPU faulty in the file → Unhealthy at the kubelet", fileName, 0), down, report.Goal{}, "700 of 11200 devices")
	b.Report.AddTimes(report.Title("GPU healthy in the file → Healthy at the kubelet", fileName, 0), up, report.Goal{}, "")
	return nil
}

func writeNode(path string, node *gpu.Node) error {
	data, err := json.Marshal(node)
	if err != nil {
		return fmt.Errorf("encode node: %w", err)
	}
	return hostfs.WriteFile(path, data, 0o644)
}
