package resource

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"outrigger.dev/pkg/config"
)

// first returns the units that a share takes if the config has only their number: the units that it took
// before, and then the first new units. A unit that existed before and that the share did not take stays
// unshared, because a container may have it alone. A change of the shares in the config makes all units new.
func (d *derivation) first(s config.Share, free []*unit, number string) []*unit {
	of := d.sharesKey()
	var out, fresh []*unit
	for _, u := range free {
		switch earlier := d.earlier[u.uuid()]; {
		case earlier == of+number:
			out = append(out, u)
		case !strings.HasPrefix(earlier, of):
			fresh = append(fresh, u)
		}
		d.choices[u.uuid()] = of
	}
	out = append(out, fresh[:min(max(s.Devices.Count-len(out), 0), len(fresh))]...)
	for _, u := range out {
		d.choices[u.uuid()] = of + number
	}
	if len(out) < min(s.Devices.Count, len(free)) {
		d.addNote("sharing of %s: %d devices are configured, and %d are shared, because the others were not shared before,"+
			" and a container may have them alone: to share them, list the devices", s.Name, s.Devices.Count, len(out))
	}
	return slices.SortedFunc(slices.Values(out), func(a, b *unit) int { return a.position - b.position })
}

// sharesKey returns a text that identifies the devices of the shares in the config. It is the first part
// of a value of gpu.Node.Choices. The second part is the number of the share that took the device, or empty.
func (d *derivation) sharesKey() string {
	h := fnv.New32a()
	for _, s := range d.config.Sharing.Shares {
		fmt.Fprintf(h, "%q %q %v\n", s.Name, s.Rename, s.Devices)
	}
	return fmt.Sprintf("%08x.", h.Sum32())
}
