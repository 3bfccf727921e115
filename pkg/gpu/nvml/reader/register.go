package reader

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// register puts all working GPUs into a new event set, and delivers the events that are left in the
// old set. If no GPU has events, there is no set. The error means that the driver is gone or too
// old.
func (w *watch) register() error {
	set, failed := w.view.span.Library().NewEventSet()
	if concernsNode(failed) {
		return failed
	}
	errs := make([]error, len(w.gpus))
	var all errgroup.Group
	all.SetLimit(parallel)
	for i, g := range w.gpus {
		all.Go(func() error {
			errs[i] = w.include(g, set, failed)
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
	watching := false
	for i, g := range w.gpus {
		if concernsNode(errs[i]) {
			if failed == nil {
				_ = set.Free() // if Free fails, the set is gone with the driver
			}
			return errs[i]
		}
		watching = watching || g.events != 0
	}
	w.drain()
	w.free()
	if failed != nil {
		return nil //nolint:nilerr // the watch goes on, and registers again later
	}
	if w.set = &set; !watching {
		w.free()
	}
	return nil
}

// include puts one GPU into the event set. If there is no event set, failed is the reason. Several calls
// can run at the same time, because each changes only the fields of its GPU.
func (w *watch) include(g *watched, set nvml.EventSet, failed error) error {
	g.events = 0
	err := w.attach(g)
	switch {
	case err != nil:
	case failed != nil:
		w.fail(g, failed)
	default:
		err = w.registerGPU(g, set)
	}
	if g.watchable() && !g.reportsMIG() && !g.mig.known {
		_ = w.readMIGState(g) // after an error, the watch reads it later, when it asks this GPU
	}
	return err
}

// attach gets the handle of a GPU. A GPU without a handle is silent.
func (w *watch) attach(g *watched) error {
	handle, err := w.view.handle(g.index)
	if g.silent = err != nil; g.silent {
		g.failed, g.lostTo = false, askMemory
		return err
	}
	g.handle = handle
	w.id(g)
	return nil
}

// registerGPU puts one GPU into set. It returns an error if the GPU has no events.
func (w *watch) registerGPU(g *watched, set nvml.EventSet) error {
	supported, err := g.handle.SupportedEvents()
	if err == nil && supported&wantedEvents != 0 {
		err = g.handle.RegisterEvents(supported&wantedEvents, set)
		if err == nil {
			g.events = supported & wantedEvents
		}
	}
	if g.silent = lost(err) && lost(askMemory(g.handle)); g.silent {
		g.lostTo = askMemory
	}
	if g.failed = false; err != nil && !unsupported(err) && !g.silent {
		w.fail(g, err)
	}
	return err
}

// fail records that a GPU cannot be registered, and logs it once.
func (w *watch) fail(g *watched, err error) {
	if g.failed = !g.silent; g.failed && !g.logged {
		g.logged = true
		w.log.Warn("cannot register gpu for events, its xids are not noticed, retrying with growing pauses",
			"index", g.index, "gpu", w.view.memory.uuid(g.index), "err", err)
	}
}

// admit registers the GPUs that could not be registered before.
func (w *watch) admit() error {
	for _, g := range w.gpus {
		switch {
		case !g.failed:
		case w.set == nil:
			return w.register()
		default:
			_ = w.registerGPU(g, *w.set) // a driver that is gone shows in the next wait
		}
	}
	return nil
}

// drain delivers the events that are left in the event set. If the set cannot be read, it delivers
// EventTopologyChanged, because events may be lost.
func (w *watch) drain() {
	if w.set == nil {
		return
	}
	for range maxPending {
		event, err := w.set.Wait(0)
		if err != nil {
			if nvml.Code(err) != gonvml.ERROR_TIMEOUT {
				w.deliver(gpu.NodeEvent(gpu.EventTopologyChanged))
			}
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

// hasNoEvents reports whether no working GPU has events, and no GPU will get events.
func (w *watch) hasNoEvents() bool {
	for _, g := range w.gpus {
		if g.silent || g.failed || g.events&gonvml.EventTypeXidCriticalError != 0 {
			return false
		}
	}
	return len(w.gpus) > 0
}
