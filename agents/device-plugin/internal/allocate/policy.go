package allocate

import (
	"slices"

	"outrigger.dev/pkg/config"
)

// choice is the state of one request.
type choice struct {
	*Allocator
	// devices and gpus have the same positions as in the Allocator.
	devices []device
	gpus    []tally
	// count is the number of replicas that were picked.
	count int
}

// device is a device and the state of its replicas in a request.
type device struct {
	tally
	replicas []state
}

// state is the state of a replica in a request.
type state byte

const (
	unavailable state = iota
	free
	picked
)

// tally counts the replicas of one device, or of all devices of one GPU.
type tally struct {
	total, free, picked int
}

// used returns the number of containers that the hardware serves, including the container of
// the request. Unhealthy hardware counts as used.
func (t tally) used() int { return t.total - t.free }

// newChoice returns a choice among the available devices. It ignores unknown devices,
// because the kubelet may have an older list.
func newChoice(a *Allocator, available []string) *choice {
	c := &choice{Allocator: a, devices: make([]device, len(a.res.Devices)), gpus: make([]tally, len(a.gpus))}
	for i, d := range a.res.Devices {
		n := replicas(d)
		c.devices[i] = device{tally: tally{total: n}, replicas: make([]state, n)}
		c.gpus[a.gpuOf[i]].total += n
	}
	for _, id := range available {
		d, n, ok := a.find(id)
		if ok && c.devices[d].replicas[n] == unavailable {
			c.devices[d].replicas[n] = free
			c.devices[d].free++
			c.gpus[a.gpuOf[d]].free++
		}
	}
	return c
}

// pick picks replica n of device d, which must be free.
func (c *choice) pick(d, n int) {
	c.devices[d].replicas[n] = picked
	c.count++
	for _, t := range []*tally{&c.devices[d].tally, &c.gpus[c.gpuOf[d]]} {
		t.free--
		t.picked++
	}
}

// choose picks n replicas, or all free ones if there are fewer. It proceeds by classes of
// GPUs that are equal for the policy. It takes all GPUs of a class, or the best connected
// ones if it does not need all.
func (c *choice) choose(n int) {
	for n > 0 {
		class := c.class()
		if len(class) == 0 {
			return
		}
		// A picked replica makes its GPU a worse choice for the policies distributed and
		// spread, and a better choice for the policy packed.
		each := 1
		if c.opts.Policy == config.PolicyPacked {
			each = c.gpus[class[0]].free
		}
		if want := (n + each - 1) / each; want < len(class) {
			class = c.closest(class, want)
		}
		for _, g := range class {
			for range min(each, n) {
				c.pickFrom(g)
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

// pickFrom picks the lowest free replica of the best device of a GPU. The GPU must have a
// free replica.
func (c *choice) pickFrom(g int) {
	var (
		chosen = -1
		best   rank
	)
	for _, d := range c.Allocator.gpus[g].devices {
		if c.devices[d].free == 0 {
			continue
		}
		r := c.rank(c.devices[d].tally, false)
		if chosen < 0 || slices.Compare(r[:], best[:]) < 0 {
			chosen, best = d, r
		}
	}
	c.pick(chosen, slices.Index(c.devices[chosen].replicas, free))
}

// fresh reports whether a GPU has a free device that this container does not use yet.
func (c *choice) fresh(g int) bool {
	return slices.ContainsFunc(c.Allocator.gpus[g].devices, func(d int) bool {
		return c.devices[d].free > 0 && c.devices[d].picked == 0
	})
}

// rank orders hardware by the policy. The lowest rank is taken first.
type rank [3]int

// rank returns the rank of a GPU or device. fresh is set if a GPU has a free device that
// this container does not use yet.
func (c *choice) rank(t tally, fresh bool) rank {
	switch c.opts.Policy {
	case config.PolicyPacked:
		// Among equally used hardware, the hardware with fewer free replicas is fuller.
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
