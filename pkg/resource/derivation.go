package resource

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

// derivation collects the results of the stages of one Derive.
type derivation struct {
	config config.Config
	left   []omitted
	notes  []string
	// earlier is gpu.Node.Choices, and choices has the choices of this derivation.
	earlier, choices map[gpu.UUID]string
}

// omitted is a unit that is not advertised.
type omitted struct {
	unit   *unit
	kind   cause.Code
	reason string
}

// omit records that the unit is not advertised. If the unit has a fault, the fault takes precedence
// over reasons that may only be a consequence of it.
func (d *derivation) omit(u *unit, code cause.Code, format string, args ...any) {
	l := omitted{unit: u, kind: code, reason: fmt.Sprintf(format, args...)}
	if f := u.fault(); f != nil && (code == cause.DeviceFault || code == cause.DeviceMIG) {
		l.kind, l.reason = cause.DeviceFault, f.Error()
	}
	d.left = append(d.left, l)
}

func (d *derivation) addNote(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// unlisted returns the omitted units, ordered.
func (d *derivation) unlisted() []Unlisted {
	slices.SortFunc(d.left, func(a, b omitted) int { return cmp.Compare(a.unit.position, b.unit.position) })
	var out []Unlisted
	for _, l := range d.left {
		out = append(out, Unlisted{Index: l.unit.index, UUID: l.unit.uuid(), Kind: l.kind, Reason: l.reason})
	}
	return out
}

// draft is a future resource, with its sorted units.
type draft struct {
	name  string
	units []*unit
}

// drafts groups the units by the name under which they are advertised.
func drafts(units []*unit) []draft {
	byName := map[string][]*unit{}
	for _, u := range units {
		byName[u.advertised] = append(byName[u.advertised], u)
	}
	var out []draft
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, draft{name: name, units: byName[name]})
	}
	return out
}

// separate omits resources that would have the socket of another resource. The name of a socket
// only contains the part after the last "/" of the name of the resource.
func (d *derivation) separate(all []draft) []draft {
	owner := map[string]string{}
	return slices.DeleteFunc(all, func(o draft) bool {
		short := o.name[strings.LastIndex(o.name, "/")+1:]
		first, taken := owner[short]
		if !taken {
			owner[short] = o.name
			return false
		}
		for _, u := range o.units {
			d.omit(u, cause.DeviceConfig, "%s would have the same socket as %s: rename one of them", o.name, first)
		}
		return true
	})
}

// resource returns the resource, without the health of its devices.
func (o draft) resource(s config.Sharing) Resource {
	r := Resource{Name: o.name, Devices: make([]Device, 0, len(o.units))}
	for _, u := range o.units {
		dev := u.device()
		if dev.Replicas > 1 || dev.MPS {
			r.Sharing = s.Strategy
		}
		if dev.Replicas > 1 {
			r.FailRequestsGreaterThanOne = s.FailRequestsGreaterThanOne
		}
		r.Devices = append(r.Devices, dev)
	}
	return r
}

// hardware returns the hardware of the devices, in order.
func (o draft) hardware() []hardware {
	out := make([]hardware, 0, len(o.units))
	for _, u := range o.units {
		out = append(out, u.hardware)
	}
	return out
}
