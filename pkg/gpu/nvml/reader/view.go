package reader

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/pci"
)

// parallel is the number of GPUs that are read at a time. NVML supports calls from several threads,
// but each call that waits takes a thread of the process.
const parallel = 2

// view holds the state of the GPUs in one span of NVML, and the means to read it.
type view struct {
	span    *nvml.Span
	proc    driverproc.Root
	sysRoot string
	// begun is the time of the first use, and settle is how long the driver may still be adding
	// GPUs after that. repeated has the bus IDs of the GPUs that the previous view lacked.
	begun    time.Time
	settle   time.Duration
	repeated map[string]bool

	gpus      atomic.Pointer[int]
	driver    driver
	memory    memory
	catalogue catalogue
	fabrics   fabrics
	log       *slog.Logger
	// hidden is done after lacks has the GPUs that NVML does not show.
	hidden sync.Once
	lacks  atomic.Pointer[[]hiddenGPU]
}

// device is a GPU with its handle. The handle is not valid if NVML did not return one.
type device struct {
	handle nvml.Device
	gpu    gpu.GPU
	failed []failure
}

// stale reports whether NVML has to be initialized again, because it may list other GPUs then. When a
// driver starts, the device nodes of its GPUs appear one after the other.
func (v *view) stale() bool { return slices.ContainsFunc(v.lacking(), v.late) || v.span.Stale() }

// read reads the node or, if again is set, only the values that the last reading lacks.
func (v *view) read(ctx context.Context, again bool) (*gpu.Node, error) {
	devices, err := v.devices(ctx, again)
	if err != nil {
		return nil, err
	}
	identify(devices, kernelGPUs(v.proc, devices))
	devices = slices.DeleteFunc(devices, func(d device) bool { return isDisplay(d.gpu.Name) })
	for i := range devices {
		if devices[i].settle(); devices[i].gpu.Fault == nil {
			v.memory.storeConstants(devices[i].gpu)
		}
	}
	v.memory.restoreFaulty(devices)
	markDoubles(devices)
	fillCaps(v.proc, devices)
	node := &gpu.Node{GPUs: make([]gpu.GPU, 0, len(devices))}
	node.Driver, node.Missing = v.driver.versions(v.span.Library(), v.proc)
	for i := range devices {
		d := &devices[i]
		d.gpu.NUMANode = pci.NUMANode(v.sysRoot, d.gpu.PCI.BusID)
		node.GPUs = append(node.GPUs, d.gpu)
	}
	v.memory.rememberWorking(devices)
	return node, nil
}

// devices reads all GPUs, in NVML's order.
func (v *view) devices(ctx context.Context, again bool) ([]device, error) {
	count, err := v.deviceCount()
	if err != nil {
		return nil, err
	}
	all := make([]device, count)
	g, ctx := errgroup.WithContext(ctx)
	// A goroutine for each GPU would cost more, because each one grows its stack three times.
	var next atomic.Int64
	for range min(parallel, count) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < count; i = int(next.Add(1)) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				var err error
				if all[i], err = v.device(i, again); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return all, nil
}

// deviceCount returns the number of GPUs that NVML lists. It does not change in a span.
func (v *view) deviceCount() (int, error) {
	if n := v.gpus.Load(); n != nil {
		return *n, nil
	}
	n, err := v.span.Library().DeviceCount()
	if err == nil {
		v.gpus.Store(&n)
	}
	return n, err
}

// isDisplay reports whether a GPU with this name only drives the monitor of a DGX Station. It
// cannot run other work.
func isDisplay(name string) bool { return name == "DGX Display" || name == "NVIDIA DGX Display" }
