package label

import (
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// offer says how one device is offered to the kubelet.
type offer struct {
	name     string
	replicas int
	// strategy is SharingNone for a device that is offered once.
	strategy config.SharingStrategy
}

// offers says how the devices of a node are offered.
type offers struct {
	// byPlace has the index of a device in a resource.Set as its key.
	byPlace map[string]offer
	// patterns are the names that the config gives without sharing.
	patterns []string
}

// newOffers asks resource.Derive. Health is no part of labels: a GPU that falls
// ill is still offered, as unhealthy.
func newOffers(n *gpu.Node, c config.Config) offers {
	o := offers{byPlace: map[string]offer{}}
	for _, p := range slices.Concat(c.Resources.GPUs, c.Resources.MIG) {
		o.patterns = append(o.patterns, p.Name)
	}
	for _, r := range resource.Derive(n, health.View{}, c).Resources {
		for _, d := range r.Devices {
			s := config.SharingNone
			if d.Replicas > 1 {
				s = r.Sharing
			}
			o.byPlace[d.Index] = offer{name: r.Name, replicas: d.Replicas, strategy: s}
		}
	}
	return o
}

// mps reports whether a device of the node is shared by MPS: then a daemon has
// to run there, whatever else is on the node.
func (o offers) mps() bool {
	for _, d := range o.byPlace {
		if d.strategy == config.SharingMPS {
			return true
		}
	}
	return false
}

// share is how devices of one kind are offered.
type share struct {
	// replicas of each device, 0 if none is offered.
	replicas int
	strategy config.SharingStrategy
	// unmarked is set where devices are shared under the name that they have
	// without sharing, so that a request does not tell that it gets a part.
	unmarked bool
}

// share returns how the devices of one kind are offered that stand at places in
// the Set and have the name own where the config does not choose another.
//
// If they are not all offered alike, those under their own name count, before
// those to which a pattern of the config gives a name, before those that are
// renamed because they are shared: it is the first that a request gets which
// knows nothing of this node. Of several numbers of replicas the largest one
// counts: it is with how many others a container has to reckon.
func (o offers) share(places []string, own string) share {
	best, rank := share{strategy: config.SharingNone}, -1
	for _, p := range places {
		d, ok := o.byPlace[p]
		if !ok {
			continue
		}
		r := o.rank(d.name, own)
		if r < rank || r == rank && d.replicas <= best.replicas {
			continue
		}
		best, rank = share{replicas: d.replicas, strategy: d.strategy, unmarked: d.replicas > 1 && r > 0}, r
	}
	return best
}

// rank orders the names under which a device can be offered; that of a device
// which is renamed to be shared is 0.
func (o offers) rank(name, own string) int {
	switch {
	case name == own:
		return 2
	case slices.Contains(o.patterns, name):
		return 1
	default:
		return 0
	}
}
