package reader

import (
	"reflect"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// migState is what is known of a GPU that does not report changes of its MIG
// mode and its MIG devices.
type migState struct {
	// capable is set for a GPU that has the mode.
	capable bool
	// minor names the GPU in the folders of the kernel driver.
	minor int
	// current and pending are the mode.
	current, pending int
	// instances has the compute instances of each GPU instance.
	instances map[uint32][]uint32
}

// reportsMIG reports whether NVML has an event for changes of MIG devices.
func (g *watched) reportsMIG() bool { return g.events&gonvml.EventMigConfigChange != 0 }

// learnMIG reads the MIG state of a GPU that does not report its changes.
func (w *watch) learnMIG(g *watched) {
	g.mig.capable = false
	current, pending, err := g.handle.MIGMode()
	if err != nil {
		return
	}
	minor, err := g.handle.MinorNumber()
	if err != nil {
		return
	}
	g.mig = migState{capable: true, minor: minor, current: current, pending: pending, instances: instances(w.view.proc, minor)}
}

// checkMIG delivers EventMIGChanged for GPUs that do not report it. The kernel
// driver keeps a folder for each instance, so that it costs no call of NVML to
// see that instances have changed. The mode has no file: at each check one of the
// GPUs is asked.
func (w *watch) checkMIG() {
	var mute []*watched
	for _, g := range w.gpus {
		if g.mig.capable && !g.silent && !g.reportsMIG() && g.id != "" {
			mute = append(mute, g)
		}
	}
	if len(mute) == 0 {
		return
	}
	asked := mute[w.turn%len(mute)]
	w.turn++
	for _, g := range mute {
		now := g.mig
		now.instances = instances(w.view.proc, now.minor)
		if g == asked {
			now.current, now.pending = currentMode(g)
		}
		if changed := !reflect.DeepEqual(now, g.mig); changed {
			g.mig = now
			w.deliver(gpu.GPUEvent(gpu.EventMIGChanged, g.id))
		}
	}
}

// currentMode returns the mode as it was if the GPU does not answer.
func currentMode(g *watched) (current, pending int) {
	current, pending, err := g.handle.MIGMode()
	if err != nil {
		return g.mig.current, g.mig.pending
	}
	return current, pending
}

// instances returns the compute instances of each GPU instance of a GPU.
func instances(proc driverproc.Root, minor int) map[uint32][]uint32 {
	out := map[uint32][]uint32{}
	for _, id := range proc.GPUInstances(minor) {
		out[id] = proc.ComputeInstances(minor, id)
	}
	return out
}
