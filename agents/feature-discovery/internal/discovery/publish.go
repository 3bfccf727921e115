package discovery

import (
	"cmp"
	"errors"
	"reflect" // DeepEqual: the values have slices, maps or pointers

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/nodestate"
)

// publish derives the desired state, and publishes it if it has changed.
func (d *Discovery) publish() {
	w := nodestate.Desired{Labels: d.labels(), Condition: d.ready()}
	var unknown error
	if w.Labels == nil {
		unknown = d.whyUnknown()
	}
	// With reflection, a new field of the desired state needs no code here.
	if !reflect.DeepEqual(d.desired, w) {
		d.desired = w
		d.cfg.Recorder.Desired(w)
		d.cfg.Publish(w)
	}
	// Set this last, because once the labels are known, the publisher decides whether the agent is
	// ready.
	d.unknown.Set(unknown)
}

// whyUnknown returns why the labels are unknown.
func (d *Discovery) whyUnknown() error {
	switch {
	case d.hang != nil:
		return d.hang
	case !d.refreshed:
		return errStarting
	}
	return cmp.Or(d.trouble.Err(), errNoGPU)
}

var errNoGPU = errors.New("the driver answers and reports no GPU, although GPUs on the PCI bus are bound to it: see GPUReady, and the kernel log (dmesg | grep NVRM)")

// labels returns the labels of the node, or nil while they are unknown. Labels describe the
// hardware, and GPUReady describes whether it works. So labels stay if a driver stops answering,
// for example during its update. Labels of an earlier process stay until the driver answers.
// Labels are removed when the bus no longer has GPUs.
func (d *Discovery) labels() map[string]string {
	none := errors.Is(d.trouble.Err(), gpu.ErrNoDriver) || d.node != nil && len(d.node.GPUs) == 0
	switch {
	case !d.refreshed:
		return nil
	case none && !d.machine.mayHaveGPU():
		return map[string]string{}
	case d.withGPUs == nil:
		return nil
	}
	return label.Derive(label.Facts{Node: d.withGPUs, Config: d.config, Machine: d.machine.Product, PCI: d.machine.PCI})
}

// ready returns the condition, or nil while it is unknown and if there is no chain. If the driver
// hangs at the start, the first refresh never ends, but the condition is known.
func (d *Discovery) ready() *nodestate.Condition {
	if len(d.cfg.Chain) == 0 || !d.refreshed && d.hang == nil || d.knownFacts == nil || d.asksNode() && d.cluster == nil {
		return nil
	}
	c := ready.Derive(d.cfg.Chain, ready.Observed{
		Node: d.node, Health: d.health.View(), Err: d.trouble.Err(), Hang: d.hang, Facts: d.knownFacts, Cluster: d.cluster,
	})
	return &c
}
