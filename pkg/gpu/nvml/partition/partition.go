// Package partition reads and changes, through NVML, how GPUs are divided into MIG devices. It
// makes no decisions: the caller plans the steps, and holds the lease on NVML while it takes them.
package partition

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/procowner"
	"outrigger.dev/pkg/text"
)

// Reader reads GPUs. It reads the board of each product once for a version of the driver: NVML
// documents that boards are immutable, but another version may report more of them. It is safe for
// concurrent use.
type Reader struct {
	mu sync.Mutex
	// driver is the version of the driver that reported the boards.
	driver string
	boards map[product]*board
	// positions are NVML's indices of the GPUs at their last reading.
	positions map[gpu.UUID]int
	pins      *index.Pins
}

// New returns a Reader that does nothing until it is used. GPUs have the indices of pins or, if that
// is nil, NVML's.
func New(pins *index.Pins) *Reader { return &Reader{positions: map[gpu.UUID]int{}, pins: pins} }

// View is a Reader within a span of NVML. It is not safe for concurrent use.
type View struct {
	reader *Reader
	span   *nvml.Span
	gpus   map[gpu.UUID]*entry
	// driver is the version of the driver. It is empty until a board is read.
	driver string
}

// entry holds the values of a GPU that a View has read. position is NVML's index.
type entry struct {
	handle   nvml.Device
	position int
	gpu      mig.GPU
	board    *board
	// instances are the existing instances, after the state of the GPU was read.
	instances []*instance
	read      bool
}

// View returns a View of the Reader for a span.
func (r *Reader) View(span *nvml.Span) *View {
	return &View{reader: r, span: span, gpus: map[gpu.UUID]*entry{}}
}

// ErrNoGPU is returned for a GPU that NVML does not list.
var ErrNoGPU = errors.New("there is no such GPU")

// GPUs returns all GPUs of the node, ordered by index. A GPU that fails is listed with its Fault.
// The error is for failures of the whole node.
func (v *View) GPUs() ([]mig.GPU, error) {
	count, err := v.span.Library().DeviceCount()
	if err != nil {
		return nil, fmt.Errorf("read GPUs: %w", err)
	}
	out := make([]mig.GPU, 0, count)
	v.gpus = map[gpu.UUID]*entry{}
	for i := range count {
		g, err := v.read(i)
		if err != nil {
			return nil, fmt.Errorf("read GPUs: %w", err)
		}
		out = append(out, g)
	}
	v.pin(out)
	return out, nil
}

// GPU reads the current state of a GPU. It does not access the other GPUs if the index of the GPU
// has not changed. If the GPU does not work, it has a Fault. The error is ErrNoGPU, or for failures
// of the whole node.
func (v *View) GPU(id gpu.UUID) (mig.GPU, error) {
	k, err := v.entry(id)
	switch {
	case err == nil:
		return v.readState(k)
	case errors.Is(err, ErrNoGPU) || nvml.DriverGone(err):
		return mig.GPU{}, err
	default:
		return mig.GPU{Index: v.reader.index(id), UUID: id, Fault: nvml.Fault(err)}, nil
	}
}

// entry returns the entry of a GPU. It searches for the GPU by index, first with the last known
// index, because NVML's search for a UUID fails if any GPU of the node has fallen off the bus.
func (v *View) entry(id gpu.UUID) (*entry, error) {
	if k := v.gpus[id]; k != nil {
		return k, nil
	}
	count, err := v.span.Library().DeviceCount()
	if err != nil {
		return nil, fmt.Errorf("read GPUs: %w", err)
	}
	last := v.reader.position(id)
	var failed error
	for _, at := range indicesFrom(count, last) {
		k, err := v.open(at)
		switch {
		case nvml.DriverGone(err):
			return nil, fmt.Errorf("read GPUs: %w", err)
		case err != nil && at == last:
			failed = err
		case err == nil && k.gpu.UUID == id:
			if err := v.constants(k); err != nil {
				return nil, fmt.Errorf("GPU %s: %w", id, err)
			}
			return k, nil
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("GPU %s: %w", id, failed)
	}
	return nil, fmt.Errorf("GPU %s: %w", id, ErrNoGPU)
}

// read reads the GPU at a position in NVML's list.
func (v *View) read(position int) (mig.GPU, error) {
	k, err := v.open(position)
	if err == nil {
		err = v.constants(k)
	}
	if err != nil {
		return faulty(k, err)
	}
	return v.readState(k)
}

// open returns the GPU at a position. It only reads the UUID.
func (v *View) open(position int) (*entry, error) {
	k := &entry{position: position, gpu: mig.GPU{Index: position}}
	var err error
	if k.handle, err = v.span.Library().Device(position); err != nil {
		return k, err
	}
	id, err := k.handle.UUID()
	if err != nil {
		return k, err
	}
	if !gpu.UUID(id).Valid() {
		return k, fmt.Errorf("nvmlDeviceGetUUID: %+q is not a UUID", id)
	}
	k.gpu.UUID = gpu.UUID(id)
	if at, known := v.reader.pins.Index(k.gpu.UUID); known {
		k.gpu.Index, k.gpu.Shifted = at, at != position
	}
	return k, nil
}

// faulty returns a GPU with the error as its Fault. It returns an error if the driver is gone.
func faulty(k *entry, err error) (mig.GPU, error) {
	if nvml.DriverGone(err) {
		return mig.GPU{}, err
	}
	g := k.gpu
	g.State, g.Board, g.Fault = mig.State{}, mig.Board{}, nvml.Fault(err)
	return g, nil
}

// constants reads the values, except for the UUID, that do not change while NVML is initialized. It
// remembers the GPU.
func (v *View) constants(k *entry) error {
	pci, err := k.handle.PCIInfo()
	if err != nil {
		return err
	}
	name, err := k.handle.Name()
	if err != nil {
		return err
	}
	k.gpu.PCI, k.gpu.Name = nvml.PCI(pci), text.Printable(name)
	memory, err := k.handle.MemoryInfo()
	if err != nil && nvml.Code(err) != gonvml.ERROR_NOT_SUPPORTED { // GPUs that share the memory of the CPU
		return err
	}
	k.gpu.MemoryBytes = memory.Total
	v.gpus[k.gpu.UUID] = k
	v.reader.mu.Lock()
	defer v.reader.mu.Unlock()
	v.reader.positions[k.gpu.UUID] = k.position
	return nil
}

// readState reads the state of a GPU.
func (v *View) readState(k *entry) (mig.GPU, error) {
	k.instances, k.read = nil, true
	current, pending, err := k.handle.MIGMode()
	if nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED {
		k.gpu.Capable = false
		return k.gpu, nil
	}
	if err != nil {
		return faulty(k, err)
	}
	k.gpu.Capable = true
	k.gpu.State = mig.State{Enabled: current == gonvml.DEVICE_MIG_ENABLE, Pending: pending == gonvml.DEVICE_MIG_ENABLE}
	if k.board == nil || len(k.board.profiles) == 0 { // the mode may be on by now
		if k.board, err = v.board(k); err != nil {
			return faulty(k, err)
		}
	}
	if k.gpu.Enabled {
		if err := v.layout(k); err != nil {
			return faulty(k, err)
		}
	}
	k.gpu.Board, k.gpu.NeedsReset = v.reader.boardOf(k.board)
	return k.gpu, nil
}

// Processes returns the processes that use a GPU, ordered by PID. NVML reports only their PIDs and
// instances. A process that uses several instances is listed once for each.
func (v *View) Processes(id gpu.UUID) ([]mig.Holder, error) {
	k, err := v.entry(id)
	if err != nil {
		return nil, err
	}
	compute, err := k.handle.ComputeProcesses()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	graphics, err := k.handle.GraphicsProcesses()
	if code := nvml.Code(err); code != gonvml.SUCCESS && code != gonvml.ERROR_NOT_SUPPORTED && !nvml.Missing(err) {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []mig.Holder
	for _, p := range append(compute, graphics...) {
		one := mig.Holder{
			Process: procowner.Process{PID: int(p.Pid)}, GPU: k.gpu.Index,
			GPUInstance: instanceID(p.GpuInstanceId), ComputeInstance: instanceID(p.ComputeInstanceId),
		}
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b mig.Holder) int { return a.PID - b.PID })
	return out, nil
}

// noInstance is the lowest of the values that NVML reports for a process without an instance.
const noInstance = 0xFFFFFFF0

func instanceID(id uint32) uint32 {
	if id >= noInstance {
		return gpu.NoInstance
	}
	return id
}

// Switched reports whether the GPU has an NVLink to an NVSwitch.
func (v *View) Switched(id gpu.UUID) (bool, error) {
	k, err := v.entry(id)
	if err != nil {
		return false, err
	}
	for link := range gonvml.NVLINK_MAX_LINKS {
		if state, err := k.handle.NVLinkState(link); err != nil || state != gonvml.FEATURE_ENABLED {
			continue // a link that the GPU does not have
		}
		kind, err := k.handle.NVLinkRemoteType(link)
		if err == nil && kind == gonvml.NVLINK_DEVICE_TYPE_SWITCH {
			return true, nil
		}
	}
	return false, nil
}
