package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// List is the encoded response of ListAndWatch. It is never changed. The zero value
// has no devices.
//
// A device with a hundred replicas has a hundred entries that differ in a number, and
// of thousands of entries the health of a few changes. So a List keeps the entries
// encoded, and shares those of unchanged devices with the List before it.
type List struct {
	parts []part
	// encoded has the entries of each part.
	encoded mem.BufferSlice
}

// part identifies the entries of one device.
type part struct {
	uuid     gpu.UUID
	replicas int
	numaNode int
	healthy  bool
}

// Next returns the List of these devices, and whether it differs from l.
func (l List) Next(devices []resource.Device) (List, bool) {
	changed := len(devices) != len(l.parts)
	n := List{parts: make([]part, len(devices)), encoded: make(mem.BufferSlice, len(devices))}
	for i, d := range devices {
		n.parts[i] = part{uuid: d.UUID, replicas: max(d.Replicas, 1), numaNode: d.NUMANode, healthy: d.Health.Healthy}
		if i < len(l.parts) && n.parts[i] == l.parts[i] {
			n.encoded[i] = l.encoded[i]
			continue
		}
		changed = true
		n.encoded[i] = mem.SliceBuffer(entries(d))
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

// Len returns the size of the encoded List in bytes.
func (l List) Len() int { return l.encoded.Len() }

// entries returns an encoded entry for each replica of a device.
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

// entrySize returns the size of a Device, given the sizes of its ID, its health and its
// encoded topology.
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

// topology returns the encoded topology of a device, empty if it is near no NUMA node.
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
