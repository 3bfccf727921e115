package reader

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// findSilent delivers EventLost for each GPU that has stopped answering.
func (w *watch) findSilent() {
	for _, g := range w.gpus {
		w.check(g)
	}
}

// findSilentOf is findSilent for the GPU of an event.
func (w *watch) findSilentOf(h nvml.Device) {
	for _, g := range w.gpus {
		if g.handle.Is(h) {
			w.check(g)
		}
	}
}

// check delivers EventLost if a GPU has stopped answering. A GPU without a name is
// left to the next snapshot: an event without a GPU would count against all the
// others.
func (w *watch) check(g *watched) {
	if g.silent || !g.handle.Valid() || answers(g.handle) {
		return
	}
	g.silent = true
	if g.id == "" {
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
		return
	}
	w.deliver(gpu.GPUEvent(gpu.EventLost, g.id))
}

// answers asks for something that the library does not keep.
func answers(h nvml.Device) bool {
	_, err := h.MemoryInfo()
	return err == nil || nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED
}

// expecting reports whether something is about to happen that NVML does not
// report. The first check comes soon as well: the device nodes of a driver that
// starts come one after the other.
func (w *watch) expecting() bool {
	if w.probed.IsZero() || w.view.fabrics.joining() {
		return true
	}
	for _, g := range w.gpus {
		if g.silent || g.refused {
			return true
		}
	}
	return false
}

// probe checks what NVML does not report, now and then: GPUs that were plugged
// in, silent GPUs that answer again, after which all are registered again, GPUs
// that refused to be registered, and changes of fabrics and MIG devices.
//
// NVML is not initialised again in the hope that a silent GPU answers then: that
// can block for all GPUs because of one. A GPU cannot be reset while NVML is in
// use; whoever resets it claims the lease, after which all is read again, and one
// that is attached again is seen in the kernel's list.
func (w *watch) probe() error {
	if time.Since(w.probed) < w.times.probe {
		return nil
	}
	w.probed = time.Now()
	if !w.stale && w.view.stale() {
		// The snapshot that is taken now sees that too, and begins again.
		w.stale = true
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
	w.checkFabrics()
	w.checkMIG()
	back := false
	for _, g := range w.gpus {
		if g.refused && w.set != nil {
			_ = w.registerGPU(g, *w.set) // a driver that is gone shows in the next wait
		}
		if g.silent {
			h, err := w.view.span.Library().Device(g.index)
			back = back || (err == nil && answers(h))
		}
	}
	if !back {
		return nil
	}
	if err := w.register(); err != nil {
		return err
	}
	w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	return nil
}
