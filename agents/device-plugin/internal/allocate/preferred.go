package allocate

import (
	"fmt"
	"slices"
)

// MalformedRequestError says that a request contradicts itself.
type MalformedRequestError struct{ Reason string }

// Error returns the contradiction.
func (e MalformedRequestError) Error() string { return "invalid request: " + e.Reason }

// Preferred returns size of the available devices, with those that must be
// included, in the order of the resource. It returns fewer where fewer are
// available. Devices that it does not know come last, as the kubelet may be a
// moment behind.
//
// Options.Policy decides between GPUs that are used by different numbers of
// containers; among those that it finds equal, and with it among GPUs that are
// neither shared nor divided, those are taken
//
//  1. which reach each other, and those taken before, best: the sum of the
//     Topology's scores of all pairs is the highest;
//  2. of these the ones that are linked least to the GPUs that stay free, so
//     that a pair or a NUMA node which is idle as a whole stays whole;
//  3. of these the first in the order of the resource.
//
// NVIDIA's device plugin takes the division of all free GPUs into sets of this
// size whose sum is the highest, which may give this container a worse set for
// the sake of others that never come.
func (a *Allocator) Preferred(available, must []string, size int) ([]string, error) {
	r := a.Request()
	for _, id := range available {
		r.Offer([]byte(id))
	}
	return r.Preferred(must, size)
}

// Request is a request for preferred devices that is being read. A kubelet names
// every free replica in it, thousands where devices are shared, and waits for the
// answer before it starts the pod: so each name is counted when it comes, and only
// one that is not known is kept. It belongs to one goroutine.
type Request struct {
	*choice
	// named is how many names were offered.
	named int
	// strange are those that are not known.
	strange []string
}

// Request returns a request that offers nothing yet.
func (a *Allocator) Request() *Request { return &Request{choice: newChoice(a)} }

// Offer takes in an available device, and returns whether it is known. It counts
// once, however often it is named.
func (r *Request) Offer(id []byte) bool {
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

// Preferred answers the request, which is of no use then, as Allocator.Preferred
// does.
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

// require takes the devices that must be included, and returns those of them
// that are not known.
func (c *choice) require(must, strange []string) (taken []string, err error) {
	for _, id := range must {
		device, replica, ok := c.find([]byte(id))
		slot := c.slots[device] + replica
		_, offered := slices.BinarySearch(strange, id)
		switch {
		case ok && c.free.has(slot):
			c.take(device, slot)
		case ok && c.picked.has(slot), slices.Contains(taken, id):
		case !ok && offered:
			taken = append(taken, id)
		default:
			return nil, MalformedRequestError{fmt.Sprintf("device %s must be included, but is not available", id)}
		}
	}
	return taken, nil
}

// ids returns what the kubelet calls the devices that were picked.
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
