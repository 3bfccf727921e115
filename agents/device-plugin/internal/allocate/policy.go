package allocate

import (
	"slices"

	"outrigger.dev/pkg/config"
)

// choice is the state of one request. A slot is one replica of a device; the slots of a
// resource are numbered.
type choice struct {
	*Allocator
	// free and picked are slots.
	free, picked bitset
	// count is the number of slots that were picked.
	count int
	// devices and gpus have the same positions as in the Allocator.
	devices, gpus []tally
}

// tally counts the replicas of one device, or of all devices of one GPU.
type tally struct {
	total, free, picked int
}

// used is how many containers the hardware serves, including this one. Unhealthy hardware
// counts as used.
func (t tally) used() int { return t.total - t.free }

func newChoice(a *Allocator) *choice {
	slots := a.slots[len(a.res.Devices)]
	c := &choice{
		Allocator: a,
		free:      newBits(slots),
		picked:    newBits(slots),
		devices:   make([]tally, len(a.res.Devices)),
		gpus:      make([]tally, len(a.gpus)),
	}
	for i := range c.devices {
		c.devices[i].total = a.slots[i+1] - a.slots[i]
	}
	for i := range c.gpus {
		c.gpus[i].total = a.gpus[i].total
	}
	return c
}

// home returns the tally of the GPU of a device.
func (c *choice) home(device int) *tally { return &c.gpus[c.Allocator.home[device]] }

// take picks a slot, which must be free.
func (c *choice) take(device, slot int) {
	c.free.remove(slot)
	c.picked.add(slot)
	c.count++
	for _, t := range []*tally{&c.devices[device], c.home(device)} {
		t.free--
		t.picked++
	}
}

// choose picks n slots, or all that are free. It proceeds by classes of GPUs that are
// equal for the policy, and takes either all GPUs of a class or those with the best links
// to each other.
func (c *choice) choose(n int) {
	for n > 0 {
		class := c.class()
		if len(class) == 0 {
			return
		}
		// A slot that is taken makes its GPU a worse choice for the policies that spread,
		// and a better one for the policy that packs.
		each := 1
		if c.opts.Policy == config.PolicyPacked {
			each = c.gpus[class[0]].free
		}
		if want := (n + each - 1) / each; want < len(class) {
			class = c.closest(class, want)
		}
		for _, g := range class {
			for range min(each, n) {
				c.takeFrom(g)
				n--
			}
		}
	}
}

// class returns the GPUs that the policy prefers, in order.
func (c *choice) class() []int {
	var (
		class []int
		best  rank
	)
	for g, t := range c.gpus {
		if t.free == 0 {
			continue
		}
		r := c.rank(t, c.fresh(g))
		switch order := slices.Compare(r[:], best[:]); {
		case len(class) == 0 || order < 0:
			class, best = append(class[:0], g), r
		case order == 0:
			class = append(class, g)
		}
	}
	return class
}

// takeFrom picks the lowest free replica of the best device of a GPU. The GPU must have a
// free one.
func (c *choice) takeFrom(g int) {
	var (
		device = -1
		best   rank
	)
	for _, d := range c.Allocator.gpus[g].devices {
		if c.devices[d].free == 0 {
			continue
		}
		r := c.rank(c.devices[d], false)
		if device < 0 || slices.Compare(r[:], best[:]) < 0 {
			device, best = d, r
		}
	}
	c.take(device, c.free.next(c.slots[device]))
}

// fresh reports whether a GPU has a free device that this container does not use yet.
func (c *choice) fresh(g int) bool {
	return slices.ContainsFunc(c.Allocator.gpus[g].devices, func(d int) bool {
		return c.devices[d].free > 0 && c.devices[d].picked == 0
	})
}

// rank orders hardware by the policy: the lowest is taken first.
type rank [3]int

// rank returns the rank of hardware. fresh is set if it has parts that this container does
// not use yet.
func (c *choice) rank(t tally, fresh bool) rank {
	switch c.opts.Policy {
	case config.PolicyPacked:
		// Among equally used hardware, the one with less free is fuller.
		return rank{-t.used(), t.free}
	case config.PolicySpread:
		again := 0
		switch {
		case t.picked > 0 && fresh:
			again = 1
		case t.picked > 0:
			again = 2
		}
		return rank{again, t.used(), t.picked}
	case config.PolicyDistributed:
	}
	return rank{t.used(), t.picked}
}
