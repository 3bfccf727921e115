package migconfig

import (
	"outrigger.dev/pkg/gpu/mig"
)

// Export returns a config with one entry, which asks of each GPU what it has. A GPU that
// cannot be read is in no item.
func Export(name string, gpus []mig.GPU) Config {
	var readable []mig.GPU
	for _, g := range gpus {
		if g.Fault == nil {
			readable = append(readable, g)
		}
	}
	c := Config{Entries: map[string][]Item{name: {}}}
	for _, some := range group(readable, func(a, b mig.GPU) bool { return same(has(a), has(b)) }) {
		item := target(some, gpus)
		item.Desired = has(some[0])
		c.Entries[name] = append(c.Entries[name], item)
	}
	return c
}

// has returns the config that a GPU has.
func has(g mig.GPU) mig.Desired {
	d := mig.Desired{Enabled: g.Enabled}
	if devices := g.Layout.Devices(); len(devices) > 0 {
		d.Devices = devices
	}
	return d
}
