package nvml

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// readers is how many GPUs are read at a time. NVML may be called from several
// threads, and each that waits in it is a thread of the process.
const readers = 2

// session is one span of time in which NVML is initialised.
type session struct {
	lib      *library
	procRoot string
	sysRoot  string
	// present holds the GPUs that the kernel had when NVML was initialised:
	// NVML shows these until it is initialised again.
	present map[string]procGPU

	share  *contract.Share
	cancel context.CancelCauseFunc
	// done is closed when the session is retired, cause says why.
	done  <-chan struct{}
	cause func() error

	// users and retired are guarded by Source.mu.
	users   int
	retired bool
	// err is final once down is closed.
	err  error
	down chan struct{}

	memory    memory
	catalogue catalogue
	fabrics   fabrics
	log       *slog.Logger
	// hidden is done once the log was told of GPUs that NVML does not show, and
	// lacks has the device nodes which those lack.
	hidden sync.Once
	lacks  atomic.Pointer[[]string]
}

// device is a GPU with its handle. The handle is nil if NVML gave none.
type device struct {
	handle gonvml.Device
	gpu    gpu.GPU
}

// stale reports whether GPUs have come or gone since NVML was initialised, or a
// device node has come without which NVML does not show a GPU: those of a driver
// that comes up come one after the other.
func (s *session) stale(procRoot string) bool {
	if nodes := s.lacks.Load(); nodes != nil && slices.ContainsFunc(*nodes, usable) {
		return true
	}
	now := procGPUs(procRoot)
	return !maps.EqualFunc(now, s.present, func(procGPU, procGPU) bool { return true })
}

// read observes the node.
func (s *session) read(ctx context.Context) (*gpu.Node, error) {
	driver, err := s.driver()
	if err != nil {
		return nil, err
	}
	devices, err := s.devices(ctx)
	if err != nil {
		return nil, err
	}
	identify(devices, procIdentities(s.procRoot, devices))
	s.memory.recall(devices)
	markDoubles(devices)
	fillCaps(s.procRoot, devices)
	node := &gpu.Node{Driver: driver, GPUs: make([]gpu.GPU, 0, len(devices))}
	for i := range devices {
		d := &devices[i]
		d.gpu.NUMANode = pci.NUMANode(s.sysRoot, d.gpu.PCI.BusID)
		node.GPUs = append(node.GPUs, d.gpu)
	}
	s.memory.keep(devices)
	node.Links, err = s.links(ctx, devices)
	if err != nil {
		return nil, err
	}
	return node, nil
}

func (s *session) driver() (gpu.Driver, error) {
	var d gpu.Driver
	var ret gonvml.Return
	if d.Version, ret = s.lib.api.SystemGetDriverVersion(); ret != gonvml.SUCCESS {
		return d, newCallError("nvmlSystemGetDriverVersion", ret)
	}
	if d.NVMLVersion, ret = s.lib.api.SystemGetNVMLVersion(); ret != gonvml.SUCCESS {
		return d, newCallError("nvmlSystemGetNVMLVersion", ret)
	}
	cuda, ret := s.lib.api.SystemGetCudaDriverVersion_v2()
	if ret != gonvml.SUCCESS {
		return d, newCallError("nvmlSystemGetCudaDriverVersion_v2", ret)
	}
	d.CUDA = gpu.Version{Major: cuda / 1000, Minor: cuda % 1000 / 10}
	return d, nil
}

// devices reads all GPUs, in NVML's order.
func (s *session) devices(ctx context.Context) ([]device, error) {
	count, ret := s.lib.api.DeviceGetCount()
	if ret != gonvml.SUCCESS {
		return nil, newCallError("nvmlDeviceGetCount_v2", ret)
	}
	all := make([]device, count)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range count {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			all[i], err = s.device(i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(d device) bool { return isDisplay(d.gpu.Name) }), nil
}

// isDisplay reports whether a GPU of this name only drives a DGX station's
// monitor, and takes no work.
func isDisplay(name string) bool { return name == "DGX Display" || name == "NVIDIA DGX Display" }
