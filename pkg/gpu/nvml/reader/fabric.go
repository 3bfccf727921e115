package reader

import (
	"fmt"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/text"
)

// fabricEvery is how often a GPU is asked that has joined its fabric, where
// somebody outside of the node can give it another place there.
const fabricEvery = time.Minute

// fabric asks a GPU for its NVLink fabric, and notes the answer for the watches.
// It returns nil if the GPU has none or does not report it, which is no fault.
func (v *view) fabric(index int, h nvml.Device) *gpu.Fabric {
	info, err := fabricInfo(h)
	if concernsGPU(err) {
		return nil
	}
	var f *gpu.Fabric
	if err == nil {
		f = fabricOf(info)
	} else if code := nvml.Code(err); code != gonvml.ERROR_NOT_SUPPORTED && code != gonvml.ERROR_FUNCTION_NOT_FOUND {
		v.log.Debug("cannot read nvlink fabric of gpu", "index", index, "err", err)
	}
	v.fabrics.note(index, f, time.Now())
	return f
}

// fabricInfo asks in the newest form that the library knows, and returns what
// the oldest one has. The second version comes before the third, which adds
// nothing that is needed here: more drivers know it.
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

// unknownForm reports whether the driver does not know a form of a call.
func unknownForm(err error) bool {
	code := nvml.Code(err)
	return code == gonvml.ERROR_ARGUMENT_VERSION_MISMATCH || code == gonvml.ERROR_FUNCTION_NOT_FOUND
}

// fabricOf returns the answer of NVML, nil for a state that the GPU does not
// support or that is newer than this program. The other fields mean something only
// once the state is completed.
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

// fabrics holds the fabric of each GPU as snapshots or watches last read it, by the
// index of the GPU.
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

// due reports whether a GPU that was read has to be asked again.
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
	default: // shared with other nodes, failed, or not reported at the last time
		return now.Sub(s.at) >= fabricEvery
	}
}

// joining reports whether a GPU that was read is on its way into its fabric.
func (f *fabrics) joining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if s.fabric != nil && s.fabric.State != gpu.FabricCompleted {
			return true
		}
	}
	return false
}

// checkFabrics delivers EventTopologyChanged if a GPU has another fabric than
// this watch knows of. NVML has no event for it: GPUs that are about to join are
// asked at each check, those of a fabric that ends with the node no more after.
func (w *watch) checkFabrics() {
	for _, g := range w.gpus {
		if !g.silent && g.handle.Valid() && w.view.fabrics.due(g.index, w.probed) {
			w.view.fabric(g.index, g.handle)
		}
	}
	if n := w.view.fabrics.changed(); n != w.fabrics {
		w.fabrics = n
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
}
