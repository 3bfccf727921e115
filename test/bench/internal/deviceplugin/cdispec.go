package deviceplugin

import (
	"context"
	"fmt"
	"time"

	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// cdiSpec measures the CDI spec alone: what is found in the driver root, and
// written for 8 GPUs.
func (b *Bench) cdiSpec(ctx context.Context) error {
	root, err := driverroot.New(driverroot.Config{})
	if err != nil {
		return err
	}
	gpus := make([]gpu.GPU, 8)
	for i := range gpus {
		gpus[i] = gpu.GPU{Index: i, Minor: i, UUID: gpu.UUID(fmt.Sprintf("GPU-%d", i))}
	}
	var times []time.Duration
	for range b.Runs {
		path, err := b.Node.Dir("cdi")
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := writeSpec(root, gpus, path); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	b.Report.AddTimes("CDI generation, 8 GPUs", times, targetCDI, "0 NVML calls")
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
