package discovery

import (
	"cmp"
	"errors"
	"reflect" // DeepEqual: slices, maps or pointers are in the values

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/nodestate"
)

// publish derives the desired state, and passes it on if it has changed.
func (d *Discovery) publish() {
	w := nodestate.Desired{Labels: d.labels(), Condition: d.ready()}
	var unknown error
	if w.Labels == nil {
		unknown = d.whyUnknown()
	}
	// Reflection, because the desired state has maps and slices: a new field counts without a line here.
	if !reflect.DeepEqual(d.desired, w) {
		d.desired = w
		d.cfg.Recorder.Desired(w)
		d.cfg.Publish(w)
	}
	// Only now, because from here on the publisher decides whether the agent is ready.
	d.unknown.Set(unknown)
}

// unlabelled returns why the labels are unknown.
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

// labels returns the labels of the node, nil while they are unknown. Labels describe
// the hardware, and GPUReady whether it works. So labels stay while a driver that
// has answered before does not, for example during its update, and labels of an
// earlier process stay until the driver answers. They are removed when the bus has
// no GPUs any more.
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

// ready returns the condition, nil while it is unknown or if there is no chain. A
// driver that hangs at the start never ends the first refresh, but the condition is
// known then.
func (d *Discovery) ready() *nodestate.Condition {
	if len(d.cfg.Chain) == 0 || !d.refreshed && d.hang == nil || d.knownFacts == nil || d.asksLabels() && d.nodeLabels == nil {
		return nil
	}
	c := ready.Derive(d.cfg.Chain, ready.Observed{Node: d.node, Err: d.trouble.Err(), Hang: d.hang, Facts: d.knownFacts, Labels: d.nodeLabels})
	return &c
}
