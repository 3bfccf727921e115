package discovery

import (
	"errors"
	"reflect"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent/footprint"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/kube"
)

// publish derives what is to be published, and hands it on if it is news.
func (d *Discovery) publish() {
	w := publish.Wanted{Labels: d.labels(), Ready: d.ready()}
	var unknown error
	if w.Labels == nil {
		unknown = d.unlabelled()
	}
	if !reflect.DeepEqual(d.wanted, w) {
		d.wanted = w
		d.cfg.Recorder.Published(w)
		d.cfg.Publish(w)
		d.trim()
	}
	// Not before: from here on who publishes tells whether the node is ready.
	d.unknown.Set(unknown)
}

// trim gives back what only the start needed, once.
func (d *Discovery) trim() {
	if d.trimmed || d.wanted.Labels == nil {
		return
	}
	d.trimmed = true
	if err := footprint.Trim(); err != nil {
		d.log.Debug("resident memory not trimmed", "err", err)
	}
}

// unlabelled returns why the labels are not known.
func (d *Discovery) unlabelled() error {
	switch {
	case d.hang != nil:
		return d.hang
	case !d.looked:
		return errStarting
	case d.trouble == nil:
		return errNoGPU
	default:
		return d.trouble
	}
}

var errNoGPU = errors.New("the driver answers and shows no GPU, while those of the bus are bound to it: see GPUReady, and the kernel log (dmesg | grep NVRM)")

// labels returns the labels of the node. They tell what it has, and GPUReady
// tells whether that works: so they stay as they are while a driver that once
// answered does not, during an update of it for example; and before it has, those
// stay that an earlier process has left. They go when the GPUs have left the bus.
func (d *Discovery) labels() map[string]string {
	none := errors.Is(d.trouble, gpu.ErrNoDriver) || d.node != nil && len(d.node.GPUs) == 0
	switch {
	case !d.looked:
		return nil
	case none && !d.machine.gpus():
		return map[string]string{}
	case d.has == nil:
		return nil
	}
	return label.Of(label.Facts{Node: d.has, Config: d.config, Machine: d.machine.Product, PCI: d.machine.PCI})
}

// ready returns the condition, nil while it is not known, or nobody wants it. A
// driver that hangs at the start keeps the first look from ever ending; then that
// is known.
func (d *Discovery) ready() *kube.Condition {
	if len(d.cfg.Chain) == 0 || !d.looked && d.hang == nil || d.known == nil {
		return nil
	}
	c := ready.Derive(d.cfg.Chain, ready.Observed{Node: d.node, Err: d.trouble, Hang: d.hang, Facts: d.known})
	return &c
}
