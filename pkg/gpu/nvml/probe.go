package nvml

import (
	"strconv"
	"strings"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
)

// findSilent delivers EventLost for each GPU that has stopped answering.
func (w *watch) findSilent() {
	for _, g := range w.gpus {
		w.check(g)
	}
}

// findSilentOf is findSilent for the GPU of an event.
func (w *watch) findSilentOf(h gonvml.Device) {
	for _, g := range w.gpus {
		if g.handle != nil && bare(g.handle) == bare(h) {
			w.check(g)
		}
	}
}

// check delivers EventLost if a GPU has stopped answering.
func (w *watch) check(g *watched) {
	if !g.silent && g.handle != nil && !answers(g.handle) {
		g.silent = true
		w.lost(g)
	}
}

// lost tells of a GPU that stopped answering. One without a name is left to the
// next snapshot: an event without a GPU would count against all the others.
func (w *watch) lost(g *watched) {
	if g.id == "" {
		w.tell(gpu.EventTopologyChanged, "")
		return
	}
	w.tell(gpu.EventLost, g.id)
}

// answers asks for something that the library does not keep.
func answers(h gonvml.Device) bool {
	_, ret := h.GetMemoryInfo()
	return ret == gonvml.SUCCESS || ret == gonvml.ERROR_NOT_SUPPORTED
}

// probe tries silent GPUs again, now and then. If one answers, all are
// registered anew and EventTopologyChanged is delivered, as it is for a GPU that
// was plugged in, of which NVML does not tell. GPUs that refused to be
// registered are asked again, each on its own, and those that do not tell when
// their MIG devices or their fabric change are looked at.
//
// NVML is not initialised anew in the hope that a silent GPU answers then: that
// can block for all GPUs because of one. A GPU cannot be reset while NVML is in
// use; whoever resets it claims the lease, after which all is read anew, and one
// that is attached again is seen in the kernel's list.
func (w *watch) probe() error {
	if time.Since(w.probed) < probeEvery {
		return nil
	}
	w.probed = time.Now()
	if !w.stale && w.sess.stale(w.sess.procRoot) {
		// The snapshot that is taken now sees that too, and begins anew.
		w.stale = true
		w.tell(gpu.EventTopologyChanged, "")
	}
	w.lookAtFabrics()
	back := false
	for _, g := range w.gpus {
		if g.refused && w.set != nil {
			_ = w.sess.register(g, w.set) // a driver that is gone shows in the next wait
		}
		if !g.silent {
			w.lookAtMIG(g)
			continue
		}
		h, ret := w.sess.lib.api.DeviceGetHandleByIndex(g.index)
		back = back || (ret == gonvml.SUCCESS && answers(h))
	}
	if !back {
		return nil
	}
	if err := w.register(); err != nil {
		return err
	}
	w.tell(gpu.EventTopologyChanged, "")
	return nil
}

// lookAtMIG delivers EventMIGChanged if the MIG devices of a GPU that does not
// tell are others than before. That takes one call for a GPU whose mode is off,
// and two for each MIG device and two more for one whose mode is on.
func (w *watch) lookAtMIG(g *watched) {
	if g.undivided || g.handle == nil || g.events&gonvml.EventMigConfigChange != 0 {
		return
	}
	now, ok := w.sess.migLayout(g)
	if !ok {
		return
	}
	changed := g.layout != "" && g.layout != now
	g.layout = now
	if changed && g.id != "" {
		w.tell(gpu.EventMIGChanged, g.id)
	}
}

// migLayout returns a text that differs if the MIG mode or the MIG devices do.
func (s *session) migLayout(g *watched) (string, bool) {
	if !s.lib.has[symMIGMode] {
		g.undivided = true
		return "", false
	}
	current, pending, ret := g.handle.GetMigMode()
	g.undivided = ret == gonvml.ERROR_NOT_SUPPORTED
	if ret != gonvml.SUCCESS {
		return "", false
	}
	parts := []string{strconv.Itoa(current), strconv.Itoa(pending)}
	if current != gonvml.DEVICE_MIG_ENABLE || !s.lib.has[symMIGCount] || !s.lib.has[symMIGHandle] {
		return strings.Join(parts, " "), true
	}
	count, ret := g.handle.GetMaxMigDeviceCount()
	if ret != gonvml.SUCCESS {
		return "", false
	}
	for i := range count {
		h, ret := g.handle.GetMigDeviceHandleByIndex(i)
		if ret != gonvml.SUCCESS {
			continue
		}
		id, _ := h.GetUUID()
		parts = append(parts, id)
	}
	return strings.Join(parts, " "), true
}
