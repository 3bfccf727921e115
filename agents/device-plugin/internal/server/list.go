package server

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// list is what the kubelet is sent. It is never changed.
//
// A device that is offered a hundred times makes a hundred entries that differ
// in a number, and of thousands the health of a few changes. So a list is kept
// in the form in which it is sent, and lists share the entries of the devices
// that are the same in them.
type list struct {
	parts []part
	// wire has the entries of each part.
	wire mem.BufferSlice
}

// part is what the entries of one device say.
type part struct {
	uuid     gpu.UUID
	replicas int
	numaNode int
	healthy  bool
}

// next returns the list of these devices, and whether it says anything else
// than l.
func (l list) next(devices []resource.Device) (list, bool) {
	changed := len(devices) != len(l.parts)
	n := list{parts: make([]part, len(devices)), wire: make(mem.BufferSlice, len(devices))}
	for i, d := range devices {
		n.parts[i] = part{uuid: d.UUID, replicas: max(d.Replicas, 1), numaNode: d.NUMANode, healthy: d.Health.Healthy}
		if i < len(l.parts) && n.parts[i] == l.parts[i] {
			n.wire[i] = l.wire[i]
			continue
		}
		changed = true
		n.wire[i] = mem.SliceBuffer(entries(d))
	}
	if !changed {
		return l, false
	}
	return n, true
}

// The numbers of the fields of the device plugin API, v1beta1.
const (
	fieldDevices  protowire.Number = 1 // of ListAndWatchResponse
	fieldID       protowire.Number = 1 // of Device
	fieldHealth   protowire.Number = 2
	fieldTopology protowire.Number = 3
	fieldNodes    protowire.Number = 1 // of TopologyInfo
	fieldNodeID   protowire.Number = 1 // of NUMANode
)

// entries returns an entry for each replica of a device.
func entries(d resource.Device) []byte {
	replicas, health, topology := max(d.Replicas, 1), status(d), topology(d)
	id := d.AppendID(nil, replicas-1) // the longest
	wire := make([]byte, 0, replicas*(protowire.SizeTag(fieldDevices)+protowire.SizeBytes(entrySize(len(id), len(health), len(topology)))))
	for n := range replicas {
		id = d.AppendID(id[:0], n)
		wire = protowire.AppendTag(wire, fieldDevices, protowire.BytesType)
		wire = protowire.AppendVarint(wire, uint64(entrySize(len(id), len(health), len(topology)))) //nolint:gosec // a length
		wire = protowire.AppendTag(wire, fieldID, protowire.BytesType)
		wire = protowire.AppendBytes(wire, id)
		wire = protowire.AppendTag(wire, fieldHealth, protowire.BytesType)
		wire = protowire.AppendString(wire, health)
		wire = append(wire, topology...)
	}
	return wire
}

// entrySize returns the size of a Device, of which the topology is in its wire
// form.
func entrySize(id, health, topology int) int {
	return protowire.SizeTag(fieldID) + protowire.SizeBytes(id) +
		protowire.SizeTag(fieldHealth) + protowire.SizeBytes(health) + topology
}

func status(d resource.Device) string {
	if d.Health.Healthy {
		return pluginapi.Healthy
	}
	return pluginapi.Unhealthy
}

// topology returns the topology of a device in its wire form, empty where the
// hardware is near no NUMA node.
func topology(d resource.Device) []byte {
	if d.NUMANode < 0 {
		return nil
	}
	var node, nodes, out []byte
	if d.NUMANode > 0 { // the number 0 is not written
		node = protowire.AppendTag(node, fieldNodeID, protowire.VarintType)
		node = protowire.AppendVarint(node, uint64(d.NUMANode))
	}
	nodes = protowire.AppendTag(nodes, fieldNodes, protowire.BytesType)
	nodes = protowire.AppendBytes(nodes, node)
	out = protowire.AppendTag(out, fieldTopology, protowire.BytesType)
	return protowire.AppendBytes(out, nodes)
}
