package nvml

import (
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// register puts all GPUs that answer into a new event set, each once, and
// takes what is left in the old one.
func (w *watch) register() error {
	set, ret := w.sess.lib.api.EventSetCreate()
	if ret != gonvml.SUCCESS {
		return newCallError("nvmlEventSetCreate", ret)
	}
	watching, deaf := false, false
	var failed error
	for _, g := range w.gpus {
		g.events = 0
		ret := w.sess.register(g, set)
		if driverGone(ret) && ret != gonvml.ERROR_NO_PERMISSION {
			_ = set.Free() // it is gone with the driver
			return newCallError("nvmlDeviceRegisterEvents", ret)
		}
		deaf = deaf || g.deaf()
		if !g.silent {
			w.lookAtMIG(g)
		}
		if g.refused {
			failed = newCallError("nvmlDeviceRegisterEvents", ret)
			w.log.Warn("gpu gives no events, its xids are not seen", "index", g.index, "gpu", g.id, "err", failed)
		}
		watching = watching || g.events != 0
	}
	if deaf && !watching {
		_ = set.Free() // nothing is in it
		if failed != nil {
			return fmt.Errorf("watch GPUs: %w", failed)
		}
		return fmt.Errorf("watch GPUs: %w: no GPU of this node reports XIDs", gpu.ErrWatchUnsupported)
	}
	w.drain()
	if err := w.free(); err != nil {
		w.log.Warn("nvml event set was not freed", "err", err)
	}
	w.set = set
	if !watching {
		return w.free()
	}
	return nil
}

// register puts one GPU into set. A GPU that fails and does not answer anything
// else is silent from then on; one that does is only without events.
func (s *session) register(g *watched, set gonvml.EventSet) gonvml.Return {
	handle, ret := s.lib.api.DeviceGetHandleByIndex(g.index)
	if ret != gonvml.SUCCESS {
		g.silent, g.refused = true, false
		return ret
	}
	g.handle = handle
	if id, ret := handle.GetUUID(); ret == gonvml.SUCCESS && gpu.UUID(id).Valid() {
		g.id = gpu.UUID(id)
	}
	supported, ret := handle.GetSupportedEventTypes()
	if ret == gonvml.SUCCESS && supported&wantedEvents != 0 {
		ret = handle.RegisterEvents(supported&wantedEvents, set)
		if ret == gonvml.SUCCESS {
			g.events = supported & wantedEvents
		}
	}
	failed := ret != gonvml.SUCCESS && ret != gonvml.ERROR_NOT_SUPPORTED
	g.silent = failed && !answers(handle)
	g.refused = failed && !g.silent
	return ret
}

// drain delivers what the event set still holds.
func (w *watch) drain() {
	if w.set == nil {
		return
	}
	for range maxPending {
		data, ret := w.set.Wait(0)
		if ret != gonvml.SUCCESS {
			return
		}
		w.event(data)
	}
}

// free frees the event set.
func (w *watch) free() error {
	if w.set == nil {
		return nil
	}
	set := w.set
	w.set = nil
	if ret := set.Free(); ret != gonvml.SUCCESS && !driverGone(ret) {
		return newCallError("nvmlEventSetFree", ret)
	}
	return nil
}
