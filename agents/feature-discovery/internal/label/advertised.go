package label

import (
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// advertisedDevice is how one device is advertised to the kubelet.
type advertisedDevice struct {
	name     string
	replicas int
	// strategy is SharingNone for a device that is advertised once, without MPS.
	strategy config.SharingStrategy
}

// advertised is how the devices of a node are advertised.
type advertised struct {
	// byPlace is keyed by the index of a device in a resource.Set.
	byPlace map[string]advertisedDevice
	// patterns are the names that the patterns of the config give.
	patterns []string
}

// newAdvertised takes the result of resource.Derive. Labels ignore health: an
// unhealthy GPU is still advertised, as unhealthy.
func newAdvertised(n *gpu.Node, c config.Config) advertised {
	a := advertised{byPlace: map[string]advertisedDevice{}}
	for _, p := range slices.Concat(c.Resources.GPUs, c.Resources.MIG) {
		a.patterns = append(a.patterns, p.Name)
	}
	for _, r := range resource.Derive(n, health.View{}, c).Resources {
		for _, d := range r.Devices {
			s := config.SharingNone
			if d.Replicas > 1 || d.MPS {
				s = r.Sharing
			}
			a.byPlace[d.Index] = advertisedDevice{name: r.Name, replicas: d.Replicas, strategy: s}
		}
	}
	return a
}

// mps reports whether a device of the node is shared by MPS, so that a daemon has
// to run there.
func (a advertised) mps() bool {
	for _, d := range a.byPlace {
		if d.strategy == config.SharingMPS {
			return true
		}
	}
	return false
}

// share is how devices of one kind are advertised.
type share struct {
	// replicas of each device, 0 if none is advertised.
	replicas int
	strategy config.SharingStrategy
	// unmarked is set if devices are shared under the name that they have without
	// sharing, so that the resource name does not show that they are shared.
	unmarked bool
}

// share returns how the devices of one kind are advertised. They are at places in
// the Set, and have the name own unless the config gives them another one.
//
// If they are not all advertised in the same way, those under their own name take
// precedence, then those that a pattern of the config names, then those that are
// renamed because they are shared: a request that knows nothing about this node gets
// the first of these. Among several numbers of replicas the largest one wins: it is
// the number of containers that may share the device.
func (a advertised) share(places []string, own string) share {
	best, rank := share{strategy: config.SharingNone}, -1
	for _, p := range places {
		d, ok := a.byPlace[p]
		if !ok {
			continue
		}
		r := a.rank(d.name, own)
		if r < rank || r == rank && d.replicas <= best.replicas {
			continue
		}
		best, rank = share{replicas: d.replicas, strategy: d.strategy, unmarked: d.replicas > 1 && r > 0}, r
	}
	return best
}

// rank orders the names under which a device can be advertised. The name of a device
// that is renamed because it is shared has rank 0.
func (a advertised) rank(name, own string) int {
	switch {
	case name == own:
		return 2
	case slices.Contains(a.patterns, name):
		return 1
	default:
		return 0
	}
}
