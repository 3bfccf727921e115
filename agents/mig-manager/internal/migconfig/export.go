package migconfig

import (
	"outrigger.dev/pkg/gpu/mig"
)

// Export returns a config whose only entry has the current state of each GPU. GPUs that cannot be
// read are not included.
func Export(name string, gpus []mig.GPU) Config {
	var readable []mig.GPU
	for _, g := range gpus {
		if g.Fault == nil {
			readable = append(readable, g)
		}
	}
	c := Config{Entries: map[string][]Item{name: {}}}
	for _, some := range group(readable, func(a, b mig.GPU) bool { return a.Desired().Equal(b.Desired()) }) {
		item := target(some, gpus)
		item.Desired = some[0].Desired()
		c.Entries[name] = append(c.Entries[name], item)
	}
	return c
}
