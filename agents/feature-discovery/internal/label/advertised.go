package label

import (
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// advertisedDevice is the advertisement of one device to the kubelet.
type advertisedDevice struct {
	name     string
	replicas int
	// strategy is SharingNone for a device that is advertised once, without MPS.
	strategy config.SharingStrategy
}

// advertised is the advertisement of all devices of a node.
type advertised struct {
	// byPlace is keyed by the index of a device in a resource.Set.
	byPlace map[string]advertisedDevice
	// patterns has the resource names from the patterns of the config.
	patterns []string
}

// newAdvertised uses the result of resource.Derive. It ignores health, because an unhealthy GPU
// is still advertised, as unhealthy.
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

// mps reports whether a device of the node is shared by MPS, so that an MPS daemon has to run
// there.
func (a advertised) mps() bool {
	for _, d := range a.byPlace {
		if d.strategy == config.SharingMPS {
			return true
		}
	}
	return false
}

// share is the advertisement of the devices of one kind.
type share struct {
	// replicas is the number of replicas of each device, 0 if no device is advertised.
	replicas int
	strategy config.SharingStrategy
	// unmarked is set if shared devices have the same resource name as without sharing, so
	// that the name does not show that they are shared.
	unmarked bool
}

// share returns the advertisement of the devices of one kind. places are the indices of the
// devices in the Set. own is their resource name if the config does not change it.
//
// If the devices are not all advertised in the same way, devices under their own name take
// precedence, because a request without knowledge of this node gets them. Devices that a pattern
// of the config names are second, and devices that are renamed because they are shared are third.
// Among several numbers of replicas, the largest number takes precedence: it is the number of
// containers that may share the device.
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

// rank orders the resource names of a device. A higher rank takes precedence. The name of a
// device that is renamed because it is shared has rank 0.
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
