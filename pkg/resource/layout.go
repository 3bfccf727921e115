package resource

import (
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// Layout is what a node advertises, without the health of its devices: it stays the same
// as long as the node and the config do. It is never changed. The zero value is empty.
type Layout struct {
	// set has devices without health.
	set Set
	// hardware has the hardware of the devices of each resource.
	hardware [][]hardware
}

// NewLayout returns what the node advertises, without health.
//
// MIG strategies and names are the same as in NVIDIA's device plugin: the strategy none,
// too, advertises a GPU in MIG mode as a whole GPU. Where that plugin rejects the node, a
// Layout advertises what it can, and lists as unlisted what it cannot: GPUs in MIG mode
// without MIG devices, and with the strategy single all devices outside one class (see
// derivation.single). GPU instances that are divided into compute instances have a resource
// like any other profile.
func NewLayout(n *gpu.Node, c config.Config) Layout {
	d := &derivation{config: c}
	units := enumerate(n, c.MIGStrategy)
	units = d.filter(units)
	units = d.name(units)
	if c.MIGStrategy == config.MIGStrategySingle {
		units = d.single(units)
	}
	units = d.share(units)
	d.noteWhole(units)
	var l Layout
	for _, o := range d.separate(drafts(units)) {
		r := o.resource(c.Sharing)
		d.fit(&r)
		l.set.Resources = append(l.set.Resources, r)
		l.hardware = append(l.hardware, o.hardware())
	}
	l.set.Unlisted, l.set.Notes = d.unlisted(), d.notes
	return l
}

// Set returns what is advertised with the health v. The caller owns its devices.
func (l Layout) Set(v health.View) Set {
	set := l.set
	set.Resources = slices.Clone(l.set.Resources)
	for i := range set.Resources {
		r := &set.Resources[i]
		r.Devices = slices.Clone(r.Devices)
		for j := range r.Devices {
			r.Devices[j].Health = l.hardware[i][j].health(v)
		}
	}
	return set
}
