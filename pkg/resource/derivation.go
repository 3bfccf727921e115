package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/pkg/config"
)

// derivation collects what the stages of one Derive leave behind.
type derivation struct {
	config config.Config
	left   []left
	notes  []string
}

// left is a unit that is not offered.
type left struct {
	unit   *unit
	kind   Kind
	reason string
}

// leave takes the unit out of what is offered. Where the unit fails, its fault
// goes before what may only follow from it: what is not known of the unit, or
// that it looks otherwise than the rest of the node.
func (d *derivation) leave(u *unit, k Kind, format string, args ...any) {
	l := left{unit: u, kind: k, reason: fmt.Sprintf(format, args...)}
	if f := u.fault(); f != nil && (k == KindFault || k == KindMIG) {
		l.kind, l.reason = KindFault, f.Error()
	}
	d.left = append(d.left, l)
}

func (d *derivation) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// unlisted returns the units that were left, ordered.
func (d *derivation) unlisted() []Unlisted {
	slices.SortFunc(d.left, func(a, b left) int { return cmp.Compare(a.unit.position, b.unit.position) })
	var out []Unlisted
	for _, l := range d.left {
		out = append(out, Unlisted{Index: l.unit.index, UUID: l.unit.uuid(), Kind: l.kind, Reason: l.reason})
	}
	return out
}

// offer is a resource to be, with its units in their order.
type offer struct {
	name  string
	units []*unit
}

// offers groups the units by the name under which they are offered.
func offers(units []*unit) []offer {
	byName := map[string][]*unit{}
	for _, u := range units {
		byName[u.offered] = append(byName[u.offered], u)
	}
	var out []offer
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, offer{name: name, units: byName[name]})
	}
	return out
}

// separate leaves out resources whose socket another resource has: only what
// follows the last "/" of a name is part of that of the socket.
func (d *derivation) separate(all []offer) []offer {
	owner := map[string]string{}
	return slices.DeleteFunc(all, func(o offer) bool {
		short := o.name[strings.LastIndex(o.name, "/")+1:]
		first, taken := owner[short]
		if !taken {
			owner[short] = o.name
			return false
		}
		for _, u := range o.units {
			d.leave(u, KindConfig, "%s would have the socket of %s: give one of them another name", o.name, first)
		}
		return true
	})
}

// resource returns what the kubelet is told of the offer, but for the health of
// its devices.
func (o offer) resource(s config.Sharing) Resource {
	r := Resource{Name: o.name, Devices: make([]Device, 0, len(o.units))}
	for _, u := range o.units {
		dev := u.device()
		if dev.Replicas > 1 {
			r.Sharing, r.FailRequestsGreaterThanOne = s.Strategy, s.FailRequestsGreaterThanOne
		}
		r.Devices = append(r.Devices, dev)
	}
	return r
}

// hardware returns what the devices of the resource are, in their order.
func (o offer) hardware() []hardware {
	out := make([]hardware, 0, len(o.units))
	for _, u := range o.units {
		out = append(out, u.hardware)
	}
	return out
}
