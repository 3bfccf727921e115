// Package resource derives what is offered to the kubelet from what is known
// of the node: a pure function of the node, its health and the config.
package resource

import (
	"fmt"
	"strconv"
	"strings"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/pkg/gpu"
)

// GPU is the name under which whole GPUs are offered.
const GPU = "nvidia.com/gpu"

// Resource is one extended resource of the node.
type Resource struct {
	// Name is fully qualified, for example "nvidia.com/gpu".
	Name string
	// Sharing is how the containers share a device that is offered several
	// times; empty if none is.
	Sharing config.SharingStrategy
	// FailRequestsGreaterThanOne refuses more than one replica for a container.
	FailRequestsGreaterThanOne bool
	// Devices is ordered, and the same for the same node.
	Devices []Device
}

// Device is one GPU or MIG device. The kubelet counts it once for each replica.
type Device struct {
	// UUID and Index name it to the container runtime. The index of a MIG device
	// has a colon: "0:1".
	UUID  gpu.UUID
	Index string
	// GPU is the NVML index of the physical GPU.
	GPU int
	// Replicas is how often the device is offered, at least once.
	Replicas int
	// Paths are the device nodes that a program needs for it, besides those
	// that are common to all.
	Paths []string
	// NUMANode is -1 where the hardware is near none.
	NUMANode int
	Health   health.Status
}

// replicaSep parts the number of a replica from the UUID, as in NVIDIA's device
// plugin.
const replicaSep = "::"

// ID returns what the kubelet calls replica n of the device, which is from 0 to
// Replicas-1: the UUID alone if there is but one.
func (d Device) ID(n int) string {
	if d.Replicas <= 1 {
		return string(d.UUID)
	}
	return string(d.UUID) + replicaSep + strconv.Itoa(n)
}

// SplitID returns the hardware and the number of the replica that an ID names.
// The number is -1 for an ID without one.
func SplitID(id string) (uuid gpu.UUID, replica int, err error) {
	hardware, number, shared := strings.Cut(id, replicaSep)
	if !shared {
		return gpu.UUID(id), -1, nil
	}
	replica, err = strconv.Atoi(number)
	if err != nil || replica < 0 || strconv.Itoa(replica) != number {
		return "", 0, fmt.Errorf("%q is no replica of a device", id)
	}
	return gpu.UUID(hardware), replica, nil
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
func Derive(n *gpu.Node, v health.View, _ config.Config) Set {
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
		UUID:     g.UUID,
		Index:    strconv.Itoa(g.Index),
		GPU:      g.Index,
		Replicas: 1,
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
