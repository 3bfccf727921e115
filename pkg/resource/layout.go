package resource

import (
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// Layout is what a node offers, whatever the health of its devices is: it holds
// as long as the node and the config do, through all changes of health. It is
// never changed. That of the zero value is empty.
type Layout struct {
	// set has devices without health.
	set Set
	// hardware has what the devices of each resource are.
	hardware [][]hardware
}

// NewLayout returns what the node offers, but for health.
//
// The MIG strategies and names are those of NVIDIA's device plugin, also that
// none offers a GPU whose MIG mode is on as a whole one. Where that plugin gives
// up the node, a Layout has what is sound and lists the rest: GPUs with MIG
// mode on and no MIG devices, and with the strategy single all devices but those
// of one class (see derivation.single). GPU instances that are divided further
// have a resource like any other profile.
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
	for _, o := range d.separate(offers(units)) {
		l.set.Resources = append(l.set.Resources, o.resource(c.Sharing))
		l.hardware = append(l.hardware, o.hardware())
	}
	l.set.Unlisted, l.set.Notes = d.unlisted(), d.notes
	return l
}

// Set returns what is offered while the health of the devices is v. Its devices
// are its own.
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
