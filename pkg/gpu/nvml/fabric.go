package nvml

import (
	"fmt"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// fabricEvery is how often a GPU is asked that has joined its fabric, where
// somebody outside of the node can give it another place there.
const fabricEvery = time.Minute

// fabric asks a GPU for its NVLink fabric, and notes the answer for the watches:
// nil if it has none or does not tell, which is no fault of the GPU.
func (s *session) fabric(index int, h gonvml.Device) *gpu.Fabric {
	info, ret := s.fabricInfo(h)
	if concernsGPU(ret) {
		return nil
	}
	var f *gpu.Fabric
	if ret == gonvml.SUCCESS {
		f = fabricOf(info)
	} else if ret != gonvml.ERROR_NOT_SUPPORTED && ret != gonvml.ERROR_FUNCTION_NOT_FOUND {
		s.log.Debug("gpu does not tell of its nvlink fabric", "index", index, "err", ret.Error())
	}
	s.fabrics.note(index, f, time.Now())
	return f
}

// fabricInfo asks in the newest form that the library knows, and returns what
// the oldest one has. The second version comes before the third, which adds
// nothing that is wanted here: more drivers know it.
func (s *session) fabricInfo(h gonvml.Device) (gonvml.GpuFabricInfo, gonvml.Return) {
	if s.lib.has[symFabricV] {
		v2, ret := fabricV2(h)
		if ret != gonvml.ERROR_ARGUMENT_VERSION_MISMATCH && ret != gonvml.ERROR_FUNCTION_NOT_FOUND {
			return gonvml.GpuFabricInfo{ClusterUuid: v2.ClusterUuid, Status: v2.Status, CliqueId: v2.CliqueId, State: v2.State}, ret
		}
		v3, ret := fabricV3(h)
		if ret != gonvml.ERROR_ARGUMENT_VERSION_MISMATCH && ret != gonvml.ERROR_FUNCTION_NOT_FOUND {
			return gonvml.GpuFabricInfo{ClusterUuid: v3.ClusterUuid, Status: v3.Status, CliqueId: v3.CliqueId, State: v3.State}, ret
		}
	}
	if s.lib.has[symFabric] {
		return h.GetGpuFabricInfo()
	}
	return gonvml.GpuFabricInfo{}, gonvml.ERROR_FUNCTION_NOT_FOUND
}

// fabricOf returns the answer of NVML, nil for a state that it does not support
// or that is newer than this. What else it holds means something once the state
// is completed.
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

// fabrics holds what was last seen of the fabric of each GPU, by its index, in
// snapshots and by watches.
type fabrics struct {
	mu   sync.Mutex
	seen map[int]sighting
	// changes counts how often a GPU was seen with another fabric than before.
	changes int
}

type sighting struct {
	fabric *gpu.Fabric
	at     time.Time
	// ever is set once the GPU was seen with a fabric.
	ever bool
}

func (f *fabrics) note(index int, now *gpu.Fabric, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, known := f.seen[index]
	if known && !sameFabric(was.fabric, now) {
		f.changes++
	}
	if f.seen == nil {
		f.seen = map[int]sighting{}
	}
	f.seen[index] = sighting{fabric: now, at: at, ever: was.ever || now != nil}
}

func sameFabric(a, b *gpu.Fabric) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// changed returns the count of changes.
func (f *fabrics) changed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// due reports whether a GPU that was seen is to be asked again.
func (f *fabrics) due(index int, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, known := f.seen[index]
	switch {
	case !known, !s.ever:
		return false
	case s.fabric != nil && s.fabric.State != gpu.FabricCompleted:
		return true
	case s.fabric != nil && s.fabric.Status == gpu.FabricSuccess && s.fabric.ClusterUUID == "":
		return false
	default: // shared with other nodes, failed, or not told at the last time
		return now.Sub(s.at) >= fabricEvery
	}
}

// lookAtFabrics delivers EventTopologyChanged if a GPU has another fabric than
// this watch knows of. NVML has no event for it: GPUs that are about to join are
// asked at each probe, those of a fabric that ends with the node no more after.
func (w *watch) lookAtFabrics() {
	for _, g := range w.gpus {
		if !g.silent && g.handle != nil && w.sess.fabrics.due(g.index, w.probed) {
			w.sess.fabric(g.index, g.handle)
		}
	}
	if n := w.sess.fabrics.changed(); n != w.fabrics {
		w.fabrics = n
		w.tell(gpu.EventTopologyChanged, "")
	}
}
