package reader

import (
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// register puts all GPUs that answer into a new event set, each once, and
// takes what is left in the old one.
func (w *watch) register() error {
	set, err := w.view.span.Library().NewEventSet()
	if err != nil {
		return err
	}
	watching, deaf := false, false
	var failed error
	for _, g := range w.gpus {
		g.events = 0
		err := w.registerGPU(g, set)
		if concernsNode(err) {
			_ = set.Free() // it is gone with the driver
			return err
		}
		deaf = deaf || g.deaf()
		if !g.silent && !g.reportsMIG() {
			w.learnMIG(g)
		}
		if g.refused {
			failed = err
			w.log.Warn("gpu gives no events, its xids are not seen", "index", g.index, "gpu", g.id, "err", failed)
		}
		watching = watching || g.events != 0
	}
	if deaf && !watching {
		_ = set.Free() // nothing is in it
		if failed != nil {
			return failed
		}
		return fmt.Errorf("%w: no GPU of this node reports XIDs", gpu.ErrWatchUnsupported)
	}
	w.drain()
	w.free()
	if w.set = &set; !watching {
		w.free()
	}
	return nil
}

// registerGPU puts one GPU into set. A GPU that fails and does not answer
// anything else is silent from then on; one that does is only without events.
func (w *watch) registerGPU(g *watched, set nvml.EventSet) error {
	handle, err := w.view.span.Library().Device(g.index)
	if err != nil {
		g.silent, g.refused = true, false
		return err
	}
	g.handle = handle
	if id, err := handle.UUID(); err == nil && gpu.UUID(id).Valid() {
		g.id = gpu.UUID(id)
	}
	supported, err := handle.SupportedEvents()
	if err == nil && supported&wantedEvents != 0 {
		err = handle.RegisterEvents(supported&wantedEvents, set)
		if err == nil {
			g.events = supported & wantedEvents
		}
	}
	failed := err != nil && nvml.Code(err) != gonvml.ERROR_NOT_SUPPORTED
	g.silent = failed && !answers(handle)
	g.refused = failed && !g.silent
	return err
}

// drain delivers what the event set still holds.
func (w *watch) drain() {
	if w.set == nil {
		return
	}
	for range maxPending {
		event, err := w.set.Wait(0)
		if err != nil {
			return
		}
		w.event(event)
	}
}

// free frees the event set.
func (w *watch) free() {
	if w.set == nil {
		return
	}
	if err := w.set.Free(); err != nil && !nvml.DriverGone(err) {
		w.log.Warn("cannot free nvml event set", "err", err)
	}
	w.set = nil
}
