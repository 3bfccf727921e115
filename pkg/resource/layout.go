package resource

import (
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// Layout holds the resources that a node advertises, without the health of the devices. It depends
// only on the node and the config. It never changes. The zero value is empty.
type Layout struct {
	// set has the devices without health.
	set Set
	// hardware has the hardware of the devices of each resource.
	hardware [][]hardware
	choices  map[gpu.UUID]string
}

// Choices returns the choices of this layout. The next layouts with this config need them in
// gpu.Node.Choices.
func (l Layout) Choices() map[gpu.UUID]string { return l.choices }

// NewLayout returns the layout of the node.
//
// MIG strategies and names are the same as in NVIDIA's device plugin: the strategy none also
// advertises a GPU in MIG mode as a whole GPU. If NVIDIA's plugin rejects the node, a Layout
// advertises as much as possible. It lists the other devices as unlisted: GPUs in MIG mode without
// MIG devices and, with the strategy single, all devices outside one class (see derivation.single).
// MIG devices of GPU instances with several compute instances have a resource like any other
// profile.
func NewLayout(n *gpu.Node, c config.Config) Layout {
	d := &derivation{config: c, earlier: n.Choices, choices: map[gpu.UUID]string{}}
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
	l.set.Unlisted, l.set.Notes, l.choices = d.unlisted(), d.notes, d.choices
	return l
}

// Set returns the advertised resources, with the health of their devices in v. The caller owns the
// devices of the result.
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
