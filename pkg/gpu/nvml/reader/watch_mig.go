package reader

import (
	"maps"
	"slices"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// migState is the known state of a GPU that does not report changes of its MIG mode and its MIG
// devices.
type migState struct {
	// known is set after it was read whether the GPU has a MIG mode. capable is set if it has.
	known, capable bool
	// minor identifies the GPU in the folders of the kernel driver.
	minor int
	// current and pending are the modes now and after the next reset.
	current, pending int
	// instances has the compute instances of each GPU instance.
	instances map[uint32][]uint32
}

// reportsMIG reports whether NVML has an event for changes of MIG devices.
func (g *watched) reportsMIG() bool { return g.events&gonvml.EventMigConfigChange != 0 }

// mustPollMIG reports whether the watch has to poll for changes of the GPU's MIG devices.
func (w *watch) mustPollMIG(g *watched) bool {
	return g.mig.capable && g.watchable() && !g.reportsMIG() && w.view.memory.uuid(g.index) != ""
}

// readMIGState reads the MIG state of a GPU that does not report MIG changes.
func (w *watch) readMIGState(g *watched) error {
	current, pending, err := g.handle.MIGMode()
	if err != nil {
		g.mig.known = unsupported(err)
		return err
	}
	minor, err := w.minor(g)
	if err == nil {
		g.mig = migState{
			known: true, capable: true, minor: minor, current: current, pending: pending, instances: instances(w.view.proc, minor),
		}
	}
	return err
}

// minor returns the minor of a GPU. It reads the minor if it was not read before.
func (w *watch) minor(g *watched) (int, error) {
	seen, known := w.view.memory.constants(g.index)
	if known[symMinor] {
		return seen.Minor, nil
	}
	minor, err := g.handle.MinorNumber()
	if err == nil {
		seen.Minor = minor
		w.view.memory.storeConstants(seen, symMinor)
	}
	return seen.Minor, err
}

// checkMode delivers EventMIGChanged if the MIG mode of a GPU, or one of its compute instances, has
// changed.
func (w *watch) checkMode(g *watched) error {
	current, pending, err := g.handle.MIGMode()
	if err != nil {
		return err
	}
	now := g.mig
	now.current, now.pending, now.instances = current, pending, instances(w.view.proc, g.mig.minor)
	w.changed(g, now)
	return nil
}

// checkInstances delivers EventMIGChanged for GPUs whose GPU instances have changed. It needs no
// call of NVML, because the kernel driver keeps a folder for each instance. Changes of only compute
// instances are found when the GPU is asked in turn.
func (w *watch) checkInstances() {
	for _, g := range w.gpus {
		if !w.mustPollMIG(g) {
			continue
		}
		if !slices.Equal(w.view.proc.GPUInstances(g.mig.minor), slices.Sorted(maps.Keys(g.mig.instances))) {
			now := g.mig
			now.instances = instances(w.view.proc, now.minor)
			w.changed(g, now)
		}
	}
}

// changed stores the present state, and delivers EventMIGChanged if it differs from the known state.
func (w *watch) changed(g *watched, now migState) {
	was := g.mig
	g.mig = now
	if was.current != now.current || was.pending != now.pending || !maps.EqualFunc(was.instances, now.instances, slices.Equal[[]uint32]) {
		w.deliver(gpu.GPUEvent(gpu.EventMIGChanged, w.view.memory.uuid(g.index)))
	}
}

// instances returns the compute instances of each GPU instance of a GPU.
func instances(proc driverproc.Root, minor int) map[uint32][]uint32 {
	out := map[uint32][]uint32{}
	for _, id := range proc.GPUInstances(minor) {
		out[id] = proc.ComputeInstances(minor, id)
	}
	return out
}
