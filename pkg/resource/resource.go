// Package resource derives what is offered to the kubelet from what is known
// of the node: a pure function of the node, its health and the config.
//
// It has one stage a file: what there is (unit.go), what the config hides
// (filter.go), the resource to which each device belongs (name.go, pattern.go,
// single.go), and how often and under which name it is offered (share.go). They
// make a Layout (layout.go), over which the health of the devices is laid.
package resource

import (
	"slices"
	"strconv"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
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
	// It is set only where a device is offered several times.
	FailRequestsGreaterThanOne bool
	// Devices is ordered by GPU, then by the index of the MIG device.
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
	var room [64]byte // enough for the UUIDs of NVIDIA
	return string(d.AppendID(room[:0], n))
}

// AppendID appends what ID returns to b.
func (d Device) AppendID(b []byte, n int) []byte {
	b = append(b, d.UUID...)
	if d.Replicas <= 1 {
		return b
	}
	return strconv.AppendInt(append(b, replicaSep...), int64(n), 10)
}

// SplitID returns the UUID and the number of the replica that an id has, or the
// id itself and false if it has none. It is the inverse of Device.ID and reads
// the id from its end, for a request can name thousands.
func SplitID(id []byte) (uuid []byte, replica int, ok bool) {
	const most = 9 // digits: what has more is no number of a replica
	at, unit := len(id), 1
	for at > 0 && len(id)-at < most && id[at-1] >= '0' && id[at-1] <= '9' {
		at--
		replica += int(id[at]-'0') * unit
		unit *= 10
	}
	written := at == len(id)-1 || at < len(id) && id[at] != '0' // as ID writes it
	end := at - len(replicaSep)
	if !written || end < 0 || string(id[end:at]) != replicaSep {
		return id, 0, false
	}
	return id[:end], replica, true
}

// Kind says what keeps a device from being offered, and so who can change it.
type Kind string

// The kinds of reasons.
const (
	// KindFault is hardware that does not say what is needed to offer it.
	KindFault Kind = "fault"
	// KindMIG is a division of the GPU that the MIG strategy has no place for.
	KindMIG Kind = "mig"
	// KindConfig is a config that asks for what the device cannot do.
	KindConfig Kind = "config"
	// KindExcluded is as the config wants it: nobody has to act.
	KindExcluded Kind = "excluded"
)

// Unlisted is a GPU or a MIG device that is not offered.
type Unlisted struct {
	// Index is that of a Device: "0" or "0:1".
	Index string
	// UUID is empty if it is not known.
	UUID gpu.UUID
	Kind Kind
	// Reason says what to do about it, unless the kind is KindExcluded.
	Reason string
}

// Set is all that a node offers. Every GPU of the node that is not divided, and
// every MIG device of those that are, is in it once: as the device of one
// resource, or as unlisted. The same node, health and config give the same Set.
type Set struct {
	// Resources is ordered by name; each has at least one device.
	Resources []Resource
	// Unlisted is ordered as the devices of a resource are.
	Unlisted []Unlisted
	// Notes are sentences about the config that whoever wrote it may want to
	// know, such as an entry that matches no device. They are no errors: one
	// config may serve nodes that differ.
	Notes []string
}

// Derive returns what the node offers. A device that fails is offered as
// unhealthy, as long as its UUID and its resource are known.
func Derive(n *gpu.Node, v health.View, c config.Config) Set { return NewLayout(n, c).Set(v) }

// Without returns the set without the devices for which refuse gives a reason,
// which are unlisted: another process offers them, for example.
func (s Set) Without(refuse func(Device) (Kind, string)) Set {
	out := Set{Unlisted: slices.Clone(s.Unlisted), Notes: s.Notes}
	for _, r := range s.Resources {
		kept := r
		kept.Devices = nil
		for _, d := range r.Devices {
			if kind, reason := refuse(d); reason != "" {
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
