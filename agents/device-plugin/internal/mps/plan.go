// Package mps runs the control daemons of CUDA's Multi-Process Service: one for
// each resource that is shared by it.
//
// Plan derives the desired daemons, a pure function of the node and of what it
// advertises. Supervisor keeps them running. The device plugin calls Ready to learn
// whether a container would find its daemon.
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
	// GPUs has the GPUs that its clients may use, in the order of NVML. The daemon
	// numbers them by their position.
	GPUs []Share
	// ActiveThreadPercentage is the share of a GPU's threads for one client.
	ActiveThreadPercentage int
	// Clients is how many containers can use the daemon at once.
	Clients int
}

// Share is how one GPU is divided.
type Share struct {
	UUID gpu.UUID
	// MemoryMiB is how much of the GPU's memory one client may use. It is 0, which is no
	// limit, if the memory is unknown.
	MemoryMiB uint64
	// Lost is set while the GPU does not answer. No daemon starts with it. A daemon
	// that has it keeps running, because its end would end the clients of all its GPUs.
	Lost bool
}

// Plan returns the daemons for a set that was derived from n, ordered by
// resource. The limits are those of NVIDIA's device plugin: memory and threads
// divided by the number of replicas. If the GPUs of a resource have different numbers,
// the threads are divided by the largest, because the daemon has one limit for all.
func Plan(n *gpu.Node, set resource.Set) []Daemon {
	var out []Daemon
	for _, r := range set.Resources {
		if r.Sharing != config.SharingMPS {
			continue
		}
		d := Daemon{Resource: r.Name}
		most := 1
		for _, dev := range r.Devices {
			if !dev.MPS {
				continue
			}
			most = max(most, dev.Replicas)
			d.Clients += dev.Replicas
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

// answering returns d with the GPUs that answer, with which a daemon can start.
func (d Daemon) answering() Daemon {
	d.GPUs = slices.DeleteFunc(slices.Clone(d.GPUs), func(g Share) bool { return g.Lost })
	return d
}

// serves reports whether a daemon that runs as d is the desired one, as far as the GPUs
// answer.
func (d Daemon) serves(wanted Daemon) bool {
	if d.Resource != wanted.Resource || d.ActiveThreadPercentage != wanted.ActiveThreadPercentage || d.Clients != wanted.Clients {
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
