package deviceplugin

import (
	"context"
	"time"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/test/bench/internal/report"
)

// cdiSpec measures only the CDI spec: to search the driver root, and to write the spec
// for the GPUs of the node.
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
	const vendor = "k8s.device-plugin.nvidia.com"
	content, err := root.Find()
	if err != nil {
		return err
	}
	devices, unresolved := cdi.Devices(gpus, content, cdi.ByUUID)
	if len(unresolved) > 0 {
		return unresolved[0]
	}
	spec, err := cdi.Spec(content, devices, cdi.Options{Kind: vendor + "/gpu"})
	if err != nil {
		return err
	}
	_, err = cdi.Dir{Path: path, Vendor: vendor}.Sync(spec)
	return err
}
