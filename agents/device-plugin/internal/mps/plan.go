// Package mps runs the control daemons of CUDA's Multi-Process Service (MPS): one for each
// shared GPU, or one for each resource if a container can get several GPUs of the resource.
//
// Plan is a pure function that derives the desired daemons from the node and its advertised
// resources. Supervisor keeps them running. The device plugin calls Ready to check whether a
// container would find its daemon.
package mps

import (
	"cmp"
	"maps"
	"slices"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// Daemon is one control daemon.
type Daemon struct {
	// Folder is the name of its folder, which identifies it: see allocate.MPSFolder.
	Folder string
	// Resource is fully qualified: "nvidia.com/gpu".
	Resource string
	// GPUs has the GPUs that its clients may use, in the order of NVML. The daemon numbers
	// them by their position.
	GPUs []Share
	// ActiveThreadPercentage is the share of a GPU's threads for one client.
	ActiveThreadPercentage int
	// Clients is the number of containers that can use the daemon at once.
	Clients int
}

// Share is the share of one GPU that a client gets.
type Share struct {
	UUID gpu.UUID
	// MemoryMiB is the limit of the GPU memory for one client. It is 0, which means no limit,
	// if the memory of the GPU is unknown.
	MemoryMiB uint64
	// Lost is set while the GPU does not answer. No daemon starts with a lost GPU. A daemon that
	// already has the GPU keeps running, because its end would also end the clients of its other
	// GPUs.
	Lost bool
}

// Plan returns the daemons for a set that was derived from n, ordered by folder. It sets the
// same limits as NVIDIA's device plugin: memory and threads divided by the number of
// replicas. If the GPUs of a daemon have different numbers of replicas, it divides the threads
// by the largest number, because the daemon has one limit for all its GPUs.
func Plan(n *gpu.Node, set resource.Set) []Daemon {
	daemons := map[string]Daemon{}
	for _, r := range set.Resources {
		for _, dev := range r.Devices {
			if !dev.MPS {
				continue
			}
			folder := allocate.MPSFolder(r, dev)
			d, ok := daemons[folder]
			if !ok {
				d = Daemon{Folder: folder, Resource: r.Name, ActiveThreadPercentage: 100}
			}
			d.GPUs = append(d.GPUs, shareOf(n, dev))
			d.ActiveThreadPercentage = max(1, min(d.ActiveThreadPercentage, 100/dev.Replicas))
			d.Clients += dev.Replicas
			daemons[folder] = d
		}
	}
	return slices.SortedFunc(maps.Values(daemons), func(a, b Daemon) int { return cmp.Compare(a.Folder, b.Folder) })
}

func shareOf(n *gpu.Node, dev resource.Device) Share {
	s := Share{UUID: dev.UUID}
	if g := n.GPU(dev.GPU); g != nil {
		s.MemoryMiB = g.MemoryBytes >> 20 / uint64(dev.Replicas) //nolint:gosec // at least 1
		s.Lost = g.Fault != nil
	}
	return s
}

// String names the daemon in messages.
func (d Daemon) String() string {
	if d.Folder == d.Resource {
		return d.Resource
	}
	return d.Resource + " on " + d.Folder
}

// answering returns d with only the GPUs that answer. A daemon can start with these.
func (d Daemon) answering() Daemon {
	d.GPUs = slices.DeleteFunc(slices.Clone(d.GPUs), func(g Share) bool { return g.Lost })
	return d
}

// matches reports whether a daemon that runs as d has the desired settings and GPUs. Desired
// GPUs that do not answer may be missing.
func (d Daemon) matches(desired Daemon) bool {
	if d.Resource != desired.Resource || d.ActiveThreadPercentage != desired.ActiveThreadPercentage || d.Clients != desired.Clients {
		return false
	}
	for _, g := range desired.answering().GPUs {
		if !slices.Contains(d.GPUs, g) {
			return false
		}
	}
	return !slices.ContainsFunc(d.GPUs, func(g Share) bool {
		return !slices.ContainsFunc(desired.GPUs, func(w Share) bool { return w.UUID == g.UUID })
	})
}
