package reader

import (
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// findSilent delivers EventLost for each GPU that has stopped working.
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

// check asks a GPU for a value that the library does not cache.
func (w *watch) check(g *watched) {
	if g.watchable() {
		w.reportLost(g, askMemory, askMemory(g.handle))
	}
}

func askMemory(h nvml.Device) error {
	_, err := h.MemoryInfo()
	return err
}

func askMode(h nvml.Device) error {
	_, _, err := h.MIGMode()
	return err
}

// reportLost delivers EventLost if the error of a call means that the GPU has stopped working, and
// reports whether it has. The GPU works again when it answers that call. For a GPU without a UUID,
// reportLost causes a snapshot instead, because an event without a GPU would count against all GPUs.
func (w *watch) reportLost(g *watched, call func(nvml.Device) error, err error) (silent bool) {
	if !lost(err) {
		return false
	}
	g.silent, g.lostTo = true, call
	if id := w.view.memory.uuid(g.index); id != "" {
		w.deliver(gpu.GPUEvent(gpu.EventLost, id))
	} else {
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
	return true
}

// expecting reports whether something is about to happen that NVML does not report. The first check
// is also early, because the device nodes of a starting driver appear one after the other.
func (w *watch) expecting() bool {
	if w.probed.IsZero() || w.view.fabrics.joining() {
		return true
	}
	for _, g := range w.gpus {
		if g.silent || g.failed {
			return true
		}
	}
	return false
}

// probe checks periodically for changes that NVML does not report: GPUs that were plugged in, GPUs
// that were lost without an XID, silent GPUs that work again, GPUs that could not be registered,
// and changes of fabrics and MIG devices. After a silent GPU works again, it registers all GPUs
// again.
//
// probe does not initialize NVML again to revive a silent GPU, because that can block all GPUs. A
// GPU cannot be reset while NVML is in use. The program that resets it claims the lease, and
// everything is read again afterwards. A GPU that is attached again appears in the kernel's list.
func (w *watch) probe() error {
	if time.Since(w.probed) < w.times.probe {
		return nil
	}
	first := w.probed.IsZero()
	w.probed = time.Now()
	if !w.stale && w.view.stale() {
		// The snapshot that this event causes also finds NVML stale, and initializes it again.
		w.stale = true
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
	if !first { // all GPUs have just been registered
		if err := w.pollNext(); err != nil {
			return err
		}
	}
	w.checkFabrics()
	w.checkInstances()
	if err := w.admit(); err != nil {
		return err
	}
	if !w.anyRecovered() {
		return nil
	}
	if err := w.register(); err != nil {
		return err
	}
	w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	return nil
}

// pollNext makes one call for each of the next GPUs in turn. After it finds a lost GPU, it asks all
// others, because the same event may have affected all of them.
func (w *watch) pollNext() error {
	for range min(asks, len(w.gpus)) {
		g := w.gpus[w.turn%len(w.gpus)]
		w.turn++
		if !g.watchable() {
			continue
		}
		call, err := w.pollGPU(g)
		if nvml.DriverGone(err) {
			// A single call may fail this way although the driver is available.
			if _, err := w.view.span.Library().DeviceCount(); nvml.DriverGone(err) {
				return err
			}
		}
		if w.reportLost(g, call, err) {
			w.findSilent()
			return nil
		}
	}
	return nil
}

// pollGPU reads a value of a GPU that may have changed without an event. If there is no such value, it
// reads a value that the library does not cache, only to see whether the GPU works. Every second poll
// reads the condition of the GPU: in addition to a value that may have changed, and otherwise instead
// of the value that is not cached. pollGPU returns the call that shows whether the GPU works, and its
// error.
func (w *watch) pollGPU(g *watched) (func(nvml.Device) error, error) {
	fabric, mode := w.view.fabrics.unsettled(g.index), w.mustPollMIG(g)
	g.asked++
	if g.asked%2 == 0 {
		if err := w.checkCondition(g); lost(err) || !fabric && !mode {
			return askMemory, err
		}
	}
	switch {
	case !g.reportsMIG() && !g.mig.known:
		err := w.readMIGState(g)
		if g.mig.known {
			// It is not known whether something has changed since the last snapshot.
			w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
		}
		return askMode, err
	case fabric && (!mode || g.asked%2 == 0):
		_, err := w.view.fabric(g.index, g.handle)
		return askMemory, err
	case mode:
		return askMode, w.checkMode(g)
	default:
		return askMemory, askMemory(g.handle)
	}
}

// checkCondition reads the condition of a GPU. It delivers EventTopologyChanged if the condition is
// different from the last reading of the GPU.
func (w *watch) checkCondition(g *watched) error {
	c, err := readCondition(g.handle)
	if err == nil && !w.view.memory.hasCondition(g.index, c) {
		w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
	}
	return err
}

// anyRecovered reports whether a silent GPU works again.
func (w *watch) anyRecovered() bool {
	back := false
	for _, g := range w.gpus {
		if !g.silent {
			continue
		}
		h, err := w.view.span.Library().Device(g.index)
		if err != nil {
			continue
		}
		if !lost(g.lostTo(h)) {
			w.view.memory.keepHandle(g.index, h)
			back = true
		}
	}
	return back
}
