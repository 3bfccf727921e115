package reader

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/pci"
)

// parallel is how many GPUs are read at a time. NVML may be called from several
// threads, and each that waits in it is a thread of the process.
const parallel = 2

// view is what was read of the GPUs in one span of NVML, and how.
type view struct {
	span    *nvml.Span
	proc    driverproc.Root
	sysRoot string

	memory    memory
	catalogue catalogue
	fabrics   fabrics
	log       *slog.Logger
	// hidden is done once GPUs that NVML does not show were logged, and lacks
	// has the device nodes which those lack.
	hidden sync.Once
	lacks  atomic.Pointer[[]string]
}

// device is a GPU with its handle. The handle is not valid if NVML gave none.
type device struct {
	handle nvml.Device
	gpu    gpu.GPU
}

// stale reports whether GPUs have come or gone since NVML was initialised, or a
// device node has come without which NVML does not show a GPU: those of a driver
// that starts come one after the other.
func (v *view) stale() bool {
	if nodes := v.lacks.Load(); nodes != nil && slices.ContainsFunc(*nodes, usable) {
		return true
	}
	return v.span.Stale()
}

// read observes the node.
func (v *view) read(ctx context.Context) (*gpu.Node, error) {
	driver, err := v.driver()
	if err != nil {
		return nil, err
	}
	devices, err := v.devices(ctx)
	if err != nil {
		return nil, err
	}
	identify(devices, kernelGPUs(v.proc, devices))
	v.memory.recall(devices)
	markDoubles(devices)
	fillCaps(v.proc, devices)
	node := &gpu.Node{Driver: driver, GPUs: make([]gpu.GPU, 0, len(devices))}
	for i := range devices {
		d := &devices[i]
		d.gpu.NUMANode = pci.NUMANode(v.sysRoot, d.gpu.PCI.BusID)
		node.GPUs = append(node.GPUs, d.gpu)
	}
	v.memory.keep(devices)
	node.Links, err = v.links(ctx, devices)
	if err != nil {
		return nil, err
	}
	return node, nil
}

func (v *view) driver() (gpu.Driver, error) {
	var d gpu.Driver
	var err error
	lib := v.span.Library()
	if d.Version, err = lib.DriverVersion(); err != nil {
		return d, err
	}
	if d.NVMLVersion, err = lib.NVMLVersion(); err != nil {
		return d, err
	}
	cuda, err := lib.CUDAVersion()
	d.CUDA = gpu.Version{Major: cuda / 1000, Minor: cuda % 1000 / 10}
	return d, err
}

// devices reads all GPUs, in NVML's order.
func (v *view) devices(ctx context.Context) ([]device, error) {
	count, err := v.span.Library().DeviceCount()
	if err != nil {
		return nil, err
	}
	all := make([]device, count)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range count {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			all[i], err = v.device(i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(d device) bool { return isDisplay(d.gpu.Name) }), nil
}

// isDisplay reports whether a GPU of this name only drives the monitor of a DGX
// station, and takes no work.
func isDisplay(name string) bool { return name == "DGX Display" || name == "NVIDIA DGX Display" }
