package reader

import (
	"fmt"
	"sync"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/text"
)

// fabric reads the NVLink fabric of a GPU, and records it for the watches. It returns nil if the
// GPU has no fabric or does not report it, which is no fault. With an error, it returns the fabric
// that was recorded last.
func (v *view) fabric(index int, h nvml.Device) (*gpu.Fabric, error) {
	info, err := fabricInfo(h)
	if err != nil && !unsupported(err) {
		return v.fabrics.last(index), err
	}
	var f *gpu.Fabric
	if err == nil {
		f = fabricOf(info)
	}
	v.fabrics.note(index, f)
	return f, nil
}

// fabricInfo uses the newest version of the call that the library knows, and returns the fields of
// the oldest version. It tries version 2 before version 3, because more drivers know it and version
// 3 adds no field that is needed here.
func fabricInfo(h nvml.Device) (gonvml.GpuFabricInfo, error) {
	v2, err := nvml.FabricInfoV(h, gonvml.GpuFabricInfoHandler.V2)
	if !unknownForm(err) {
		return gonvml.GpuFabricInfo{ClusterUuid: v2.ClusterUuid, Status: v2.Status, CliqueId: v2.CliqueId, State: v2.State}, err
	}
	if !nvml.Missing(err) {
		v3, err := nvml.FabricInfoV(h, gonvml.GpuFabricInfoHandler.V3)
		if !unknownForm(err) {
			return gonvml.GpuFabricInfo{ClusterUuid: v3.ClusterUuid, Status: v3.Status, CliqueId: v3.CliqueId, State: v3.State}, err
		}
	}
	return h.FabricInfo()
}

// unknownForm reports whether an error means that the driver does not know a version of a call.
func unknownForm(err error) bool {
	code := nvml.Code(err)
	return code == gonvml.ERROR_ARGUMENT_VERSION_MISMATCH || code == gonvml.ERROR_FUNCTION_NOT_FOUND
}

// fabricOf converts the answer of NVML. It returns nil if the GPU does not support the state, or if
// the state is newer than this program. The other fields are valid only if the state is completed.
func fabricOf(info gonvml.GpuFabricInfo) *gpu.Fabric {
	switch int(info.State) {
	case gonvml.GPU_FABRIC_STATE_NOT_STARTED:
		return &gpu.Fabric{State: gpu.FabricNotStarted}
	case gonvml.GPU_FABRIC_STATE_IN_PROGRESS:
		return &gpu.Fabric{State: gpu.FabricInProgress}
	case gonvml.GPU_FABRIC_STATE_COMPLETED:
	default:
		return nil
	}
	f := &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess, CliqueID: info.CliqueId}
	if status := gonvml.Return(info.Status); status != gonvml.SUCCESS {
		f.Status = text.Printable(status.Error())
	}
	if id := info.ClusterUuid; id != [len(id)]uint8{} {
		f.ClusterUUID = fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
	}
	return f
}

// fabrics holds the fabric of each GPU as snapshots or watches last read it, by the index of the
// GPU.
type fabrics struct {
	mu   sync.Mutex
	seen map[int]seenFabric
	// changes counts the changes of fabrics.
	changes int
}

type seenFabric struct {
	fabric *gpu.Fabric
	// ever is set after the GPU has had a fabric.
	ever bool
}

func (f *fabrics) note(index int, now *gpu.Fabric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, known := f.seen[index]
	if known && !sameFabric(was.fabric, now) {
		f.changes++
	}
	if f.seen == nil {
		f.seen = map[int]seenFabric{}
	}
	f.seen[index] = seenFabric{fabric: now, ever: was.ever || now != nil}
}

// last returns the last known fabric of a GPU.
func (f *fabrics) last(index int) *gpu.Fabric {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was := f.seen[index].fabric; was != nil {
		fabric := *was
		return &fabric
	}
	return nil
}

func sameFabric(a, b *gpu.Fabric) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// changed returns the number of changes.
func (f *fabrics) changed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// unsettled reports whether the fabric of a GPU can change without an event: the GPU is joining it,
// it spans other nodes, joining has failed, or the GPU did not report it the last time.
func (f *fabrics) unsettled(index int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.seen[index]
	ends := s.fabric != nil && s.fabric.Status == gpu.FabricSuccess && s.fabric.ClusterUUID == ""
	return s.ever && !ends
}

// joins reports whether a GPU is joining its fabric.
func (f *fabrics) joins(index int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[index].joins()
}

// joining reports whether any GPU is joining its fabric.
func (f *fabrics) joining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s.joins() {
			return true
		}
	}
	return false
}

func (s seenFabric) joins() bool { return s.fabric != nil && s.fabric.State != gpu.FabricCompleted }

// checkFabrics reads the fabrics of GPUs that are joining one. It delivers EventTopologyChanged if
// a fabric has changed since the last report of this watch. NVML has no event for such a change.
func (w *watch) checkFabrics() {
	for _, g := range w.gpus {
		if g.watchable() && w.view.fabrics.joins(g.index) {
			_, _ = w.view.fabric(g.index, g.handle) // a GPU that is lost is found in its turn
		}
	}
	if n := w.view.fabrics.changed(); n != w.fabrics {
		w.fabrics = n
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
}
