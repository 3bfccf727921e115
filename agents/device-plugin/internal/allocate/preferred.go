package allocate

import (
	"fmt"
	"slices"
)

// MalformedRequestError is the error of a request that contradicts itself.
type MalformedRequestError struct{ Reason string }

// Error returns the contradiction.
func (e MalformedRequestError) Error() string { return "invalid request: " + e.Reason }

// Request is a request for preferred devices that is being decoded. The kubelet names each
// free replica in it, thousands if devices are shared, and waits for the answer before it
// starts the pod. So each name is counted when it is decoded, and only unknown names are
// kept. One goroutine owns it.
type Request struct {
	*choice
	// named counts the calls of Available.
	named int
	// strange are the unknown names.
	strange []string
}

// Request returns a request without available devices.
func (a *Allocator) Request() *Request { return &Request{choice: newChoice(a)} }

// Available adds an available device, and reports whether it is known. A device counts
// once, however often it is named.
func (r *Request) Available(id []byte) bool {
	r.named++
	device, replica, ok := r.find(id)
	if !ok {
		r.strange = append(r.strange, string(id))
		return false
	}
	if r.free.add(r.slots[device] + replica) {
		r.devices[device].free++
		r.home(device).free++
	}
	return true
}

// Preferred answers the request: it returns size of the available devices, including the
// required ones, in the order of the resource. It returns fewer if fewer are available.
// Unknown devices come last, because the kubelet may be a moment behind. Call it once.
//
// Options.Policy decides between GPUs that are used by different numbers of containers.
// Among those that it considers equal, and so among GPUs that are neither shared nor
// divided, Preferred chooses
//
//  1. the set that is connected best, with the GPUs chosen before: the sum of the
//     Topology's scores of all pairs is the highest;
//  2. of these the set with the weakest links to the GPUs that stay free, so that an
//     idle pair or NUMA node stays idle as a whole;
//  3. of these the first in the order of the resource.
//
// NVIDIA's device plugin partitions all free GPUs into sets of this size with the highest
// total. That may give this container a worse set in favor of containers that never come.
func (r *Request) Preferred(must []string, size int) ([]string, error) {
	switch {
	case size < 0:
		return nil, MalformedRequestError{fmt.Sprintf("allocation size %d is negative", size)}
	case len(must) > size:
		return nil, MalformedRequestError{fmt.Sprintf("%d devices must be included, but the allocation size is %d", len(must), size)}
	}
	size = min(size, r.named)
	slices.Sort(r.strange)
	r.strange = slices.Compact(r.strange)
	taken, err := r.require(must, r.strange)
	if err != nil {
		return nil, err
	}
	r.choose(size - r.count - len(taken))
	ids := r.ids(size)
	for _, id := range r.strange {
		if len(ids)+len(taken) >= size {
			break
		}
		if !slices.Contains(must, id) {
			taken = append(taken, id)
		}
	}
	slices.Sort(taken)
	return append(ids, taken...), nil
}

// require picks the required devices, and returns those that are unknown.
func (c *choice) require(must, strange []string) (taken []string, err error) {
	for _, id := range must {
		device, replica, ok := c.find([]byte(id))
		slot := c.slots[device] + replica
		_, available := slices.BinarySearch(strange, id)
		switch {
		case ok && c.free.has(slot):
			c.take(device, slot)
		case ok && c.picked.has(slot), slices.Contains(taken, id):
		case !ok && available:
			taken = append(taken, id)
		default:
			return nil, MalformedRequestError{fmt.Sprintf("device %s must be included, but is not available", id)}
		}
	}
	return taken, nil
}

// ids returns the kubelet's IDs of the picked devices.
func (c *choice) ids(size int) []string {
	ids := make([]string, 0, min(size, c.count))
	device := 0
	for slot := c.picked.next(0); slot >= 0; slot = c.picked.next(slot + 1) {
		for slot >= c.slots[device+1] {
			device++
		}
		ids = append(ids, c.res.Devices[device].ID(slot-c.slots[device]))
	}
	return ids
}
