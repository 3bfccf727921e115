package deviceplugin

import (
	"context"
	"log/slog"
	"time"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/test/bench/internal/report"
)

// cdiSpec measures only the CDI spec: the search of the driver root, and writing the spec for the
// GPUs of the node.
func (b *Bench) cdiSpec(ctx context.Context, name string, goal report.Goal) error {
	root, err := driverroot.New(driverroot.Config{})
	if err != nil {
		return err
	}
	node, err := b.Node.Snapshot(ctx)
	if err != nil {
		return err
	}
	var times []time.Duration
	for range b.Runs {
		path, err := b.Node.Dir("cdi")
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := writeSpec(root, node.GPUs, path); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	b.Report.AddTimes("CDI generation, "+name, times, goal, "0 NVML calls; the peer's figure includes a process and its NVML calls")
	return ctx.Err()
}

func writeSpec(root *driverroot.Root, gpus []gpu.GPU, path string) error {
	const kind = "k8s.device-plugin.nvidia.com/gpu"
	p := cdi.NewPublisher(cdi.Config{Root: root, Kinds: []string{kind}, Log: slog.New(slog.DiscardHandler)})
	if _, err := p.Scan(""); err != nil {
		return err
	}
	unresolved, err := p.Publish(path, gpus, cdi.Request{
		Options: cdi.Options{Kind: kind},
		Devices: func(c *driverroot.Content, gpus []gpu.GPU) ([]cdi.Device, []cdi.Unresolved) {
			return cdi.Devices(gpus, c, cdi.ByUUID)
		},
	})
	if err == nil && len(unresolved) > 0 {
		err = unresolved[0]
	}
	return err
}
