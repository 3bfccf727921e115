// Package resource derives which resources a node advertises. It is a pure function of
// the node, its health and the config.
//
// There is one file per stage: the devices of the node (unit.go), the devices that the config hides
// (filter.go), the resource of each device (name.go, pattern.go, single.go), and the name and the
// number of replicas under which each device is advertised (share.go). A share is an entry of the
// sharing in the config: it takes devices, and sets their name and their number of replicas. The
// result is a Layout (layout.go), without the health of the devices, which is added later.
package resource

import (
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// GPU is the name of the resource of whole GPUs.
const GPU = "nvidia.com/gpu"

// Resource is one extended resource of the node.
type Resource struct {
	// Name is fully qualified, for example "nvidia.com/gpu".
	Name string
	// Sharing is the strategy for devices that have several replicas, or that containers use
	// through MPS; empty if there is no such device.
	Sharing config.SharingStrategy
	// FailRequestsGreaterThanOne rejects requests of a container for more than one replica. It is
	// set only if a device has several replicas.
	FailRequestsGreaterThanOne bool
	// Devices is ordered by GPU, then by the index of the MIG device.
	Devices []Device
}

// Device is one GPU or MIG device. The kubelet counts it once for each replica.
type Device struct {
	// UUID and Index identify the device to the container runtime. The index of a MIG device has a
	// colon: "0:1".
	UUID  gpu.UUID
	Index string
	// Shifted is set if NVML has another index for the device, so that programs that ask NVML for
	// Index get another device.
	Shifted bool
	// Reused is set if Index named another device before the last boot. Containers that were created
	// before the boot may still use the index for that device.
	Reused bool
	// GPU is the index of the physical GPU.
	GPU int
	// Replicas is the number of times that the device is advertised, at least 1.
	Replicas int
	// MPS is set if containers use the device through an MPS daemon. This is possible even with one
	// replica.
	MPS bool
	// Paths has the device nodes that a program needs for the device, without the device nodes that
	// all devices share.
	Paths []string
	// NUMANode is -1 if the hardware is not near a NUMA node.
	NUMANode int
	Health   health.Status
}

// replicaSep separates the number of a replica from the UUID, as in NVIDIA's device plugin.
const replicaSep = "::"

// ID returns the name of replica n for the kubelet, with n from 0 to Replicas-1. It is the UUID if
// there is only one replica.
func (d Device) ID(n int) string {
	if d.Replicas <= 1 {
		return string(d.UUID)
	}
	return string(d.UUID) + replicaSep + strconv.Itoa(n)
}

// maxReplica is larger than the number of any replica.
const maxReplica = 1_000_000_000

// SplitID returns the UUID and the number of the replica of an ID, or the ID itself and false if it
// has no such number. It is the inverse of Device.ID.
func SplitID(id string) (uuid gpu.UUID, replica int, ok bool) {
	at := strings.LastIndex(id, replicaSep)
	if at < 0 {
		return gpu.UUID(id), 0, false
	}
	digits := id[at+len(replicaSep):]
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n >= maxReplica || strconv.Itoa(n) != digits {
		return gpu.UUID(id), 0, false
	}
	return gpu.UUID(id[:at]), n, true
}

// Unlisted is a GPU or a MIG device that is not advertised.
type Unlisted struct {
	// Index is the Index of a Device: "0" or "0:1".
	Index string
	// UUID is empty if it is not known.
	UUID gpu.UUID
	Kind cause.Code
	// Reason includes the fix, unless the kind is cause.DeviceExcluded.
	Reason string
}

// Set holds all devices of a node. Each GPU that is not divided, and each MIG device of a divided
// GPU, is in it once: as a device of one resource, or as unlisted. The same node, health and config
// result in the same Set.
type Set struct {
	// Resources is ordered by name; each has at least one device.
	Resources []Resource
	// Unlisted has the same order as the devices of a resource.
	Unlisted []Unlisted
	// Notes has hints for the author of the config, for example about an entry that matches no
	// device. They are not errors, because one config may serve different nodes.
	Notes []string
}

// Derive returns the resources that the node advertises. A device that fails is advertised as
// unhealthy if its UUID and its resource are known.
func Derive(n *gpu.Node, v health.View, c config.Config) Set { return NewLayout(n, c).Set(v) }

// Without returns the set with some devices unlisted: reject returns a reason for them, for example
// because another process advertises them.
func (s Set) Without(reject func(Device) (cause.Code, string)) Set {
	out := Set{Unlisted: slices.Clone(s.Unlisted), Notes: s.Notes}
	for _, r := range s.Resources {
		kept := r
		kept.Devices = nil
		for _, d := range r.Devices {
			if kind, reason := reject(d); reason != "" {
				out.Unlisted = append(out.Unlisted, Unlisted{Index: d.Index, UUID: d.UUID, Kind: kind, Reason: reason})
				continue
			}
			kept.Devices = append(kept.Devices, d)
		}
		if len(kept.Devices) > 0 {
			out.Resources = append(out.Resources, kept)
		}
	}
	return out
}
