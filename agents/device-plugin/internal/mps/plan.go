// Package mps runs the control daemons of CUDA's Multi-Process Service: one for
// each resource that is shared by it.
//
// Plan says which daemons there are to be: a pure function of the node and of
// what is offered. Supervisor keeps them running. Ready is how the device plugin
// knows that a container would find its daemon.
package mps

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// Daemon is the control daemon of one resource.
type Daemon struct {
	// Resource is fully qualified: "nvidia.com/gpu".
	Resource string
	// GPUs are those that its clients may use, in the order of NVML. The daemon
	// numbers them by their position.
	GPUs []Share
	// ActiveThreadPercentage is what one client gets of a GPU's threads.
	ActiveThreadPercentage int
}

// Share is how one GPU is divided.
type Share struct {
	UUID gpu.UUID
	// MemoryMiB is what one client may take of the GPU's memory; 0 for a GPU
	// whose memory is not known, which then has no limit.
	MemoryMiB uint64
	// Lost is set while the GPU does not answer. No daemon starts with it; one
	// that has it goes on, because its end would be that of the clients of all
	// its GPUs.
	Lost bool
}

// Plan returns the daemons for a set that was derived from n, ordered by
// resource. The limits are those of NVIDIA's device plugin: memory and threads
// divided by the number of replicas. Where GPUs of one resource have different
// numbers, the threads are divided by the greatest, since the daemon has one
// limit for all.
func Plan(n *gpu.Node, set resource.Set) []Daemon {
	var out []Daemon
	for _, r := range set.Resources {
		if r.Sharing != config.SharingMPS {
			continue
		}
		d := Daemon{Resource: r.Name}
		most := 1
		for _, dev := range r.Devices {
			if dev.Replicas <= 1 {
				continue
			}
			most = max(most, dev.Replicas)
			share := Share{UUID: dev.UUID}
			if g := n.GPU(dev.GPU); g != nil {
				share.MemoryMiB = g.MemoryBytes >> 20 / uint64(dev.Replicas) //nolint:gosec // above 1
				share.Lost = g.Fault != nil
			}
			d.GPUs = append(d.GPUs, share)
		}
		if len(d.GPUs) == 0 {
			continue
		}
		d.ActiveThreadPercentage = max(1, 100/most)
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Daemon) int { return cmp.Compare(a.Resource, b.Resource) })
	return out
}

// answering returns d with those of its GPUs that a daemon can start with.
func (d Daemon) answering() Daemon {
	d.GPUs = slices.DeleteFunc(slices.Clone(d.GPUs), func(g Share) bool { return g.Lost })
	return d
}

// serves reports whether a daemon that runs as d does what is wanted, as far as
// the GPUs answer.
func (d Daemon) serves(wanted Daemon) bool {
	if d.Resource != wanted.Resource || d.ActiveThreadPercentage != wanted.ActiveThreadPercentage {
		return false
	}
	for _, g := range wanted.answering().GPUs {
		if !slices.Contains(d.GPUs, g) {
			return false
		}
	}
	return !slices.ContainsFunc(d.GPUs, func(g Share) bool {
		return !slices.ContainsFunc(wanted.GPUs, func(w Share) bool { return w.UUID == g.UUID })
	})
}
