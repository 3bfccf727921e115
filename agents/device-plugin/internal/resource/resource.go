// Package resource derives what is offered to the kubelet from what is known
// of the node: a pure function of the node, its health and the config.
package resource

import (
	"fmt"
	"strconv"

	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/pkg/gpu"
)

// GPU is the name under which whole GPUs are offered.
const GPU = "nvidia.com/gpu"

// Resource is one extended resource of the node.
type Resource struct {
	// Name is fully qualified, for example "nvidia.com/gpu".
	Name string
	// Devices is ordered, and the same for the same node.
	Devices []Device
}

// Device is one unit of a resource, as the kubelet counts it.
type Device struct {
	// ID is what the kubelet calls the device.
	ID string
	// UUID and Index name the hardware behind it; several devices may share
	// it.
	UUID  gpu.UUID
	Index string
	// Paths are the device nodes that a program needs for it, besides those
	// that are common to all.
	Paths []string
	// NUMANode is -1 where the hardware is near none.
	NUMANode int
	Health   health.Status
}

// Unlisted is a GPU that cannot be offered, because it cannot be named.
type Unlisted struct {
	Index  int
	Reason string
}

// Set is all that a node offers.
type Set struct {
	// Resources is ordered by name; each has at least one device.
	Resources []Resource
	Unlisted  []Unlisted
}

// Derive returns what the node offers. A GPU that fails is offered as
// unhealthy, as long as its UUID is known.
func Derive(n *gpu.Node, v health.View) Set {
	var (
		set Set
		res = Resource{Name: GPU}
	)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.UUID == "" {
			set.Unlisted = append(set.Unlisted, unlisted(g))
			continue
		}
		res.Devices = append(res.Devices, device(g, v.Of(g.UUID)))
	}
	if len(res.Devices) > 0 {
		set.Resources = append(set.Resources, res)
	}
	return set
}

func device(g *gpu.GPU, s health.Status) Device {
	d := Device{
		ID:       string(g.UUID),
		UUID:     g.UUID,
		Index:    strconv.Itoa(g.Index),
		NUMANode: g.NUMANode,
		Health:   s,
	}
	// The minor of a GPU that fails may not have been read.
	if g.Fault == nil {
		d.Paths = []string{fmt.Sprintf("/dev/nvidia%d", g.Minor)}
	}
	return d
}

func unlisted(g *gpu.GPU) Unlisted {
	u := Unlisted{Index: g.Index, Reason: "it has no UUID"}
	if g.Fault != nil {
		u.Reason = g.Fault.Error()
	}
	return u
}
