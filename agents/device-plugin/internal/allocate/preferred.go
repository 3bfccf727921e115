package allocate

import (
	"fmt"
	"slices"
)

// MalformedRequestError is the error of a request that contradicts itself.
type MalformedRequestError struct{ Reason string }

// Error returns the contradiction.
func (e MalformedRequestError) Error() string { return "invalid request: " + e.Reason }

// Preferred chooses among the available devices, and returns its choice in the order of the
// resource. The parameter size is the number of devices to choose. The choice includes all
// devices in the parameter must. If too few devices are available and known, Preferred
// returns fewer, and the kubelet chooses the others.
//
// Options.Policy decides between GPUs that different numbers of containers use. Among GPUs
// that are equal for the policy, such as GPUs that are neither shared nor divided, Preferred
// chooses by these criteria, in this order:
//
//  1. The set, together with the GPUs chosen before, has the highest sum of the Topology's
//     scores of all pairs.
//  2. The set has the weakest links to the GPUs that stay free, so that an idle pair or
//     NUMA node stays idle as a whole.
//  3. The set is the first in the order of the resource.
//
// NVIDIA's device plugin partitions all free GPUs into sets of this size with the highest
// total. It may give this container a worse set in favor of containers that never come.
func (a *Allocator) Preferred(available, must []string, size int) ([]string, error) {
	switch {
	case size < 0:
		return nil, MalformedRequestError{fmt.Sprintf("allocation size %d is negative", size)}
	case len(must) > size:
		return nil, MalformedRequestError{fmt.Sprintf("%d devices must be included, but the allocation size is %d", len(must), size)}
	}
	c := newChoice(a, available)
	for _, id := range must {
		d, n, ok := a.find(id)
		switch {
		case ok && c.devices[d].replicas[n] == free:
			c.pick(d, n)
		case ok && c.devices[d].replicas[n] == picked: // named twice
		case !ok && slices.Contains(available, id):
			size-- // the kubelet adds this device itself
		default:
			return nil, MalformedRequestError{fmt.Sprintf("device %s must be included, but is not available", id)}
		}
	}
	c.choose(min(size, len(available)) - c.count)
	return c.ids(), nil
}

// ids returns the kubelet's IDs of the picked replicas.
func (c *choice) ids() []string {
	ids := make([]string, 0, c.count)
	for i, d := range c.devices {
		for n, s := range d.replicas {
			if s == picked {
				ids = append(ids, c.res.Devices[i].ID(n))
			}
		}
	}
	return ids
}
