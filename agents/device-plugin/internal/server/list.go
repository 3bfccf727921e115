package server

import (
	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// list is what the kubelet is sent. It is never changed.
//
// A device that is offered a hundred times makes a hundred entries that differ
// in a number, and of thousands the health of a few changes. So a list is kept
// in the form in which it is sent, and the entries of a device are copied from
// one list to the next as long as they are the same.
type list struct {
	parts   []part
	wire    []byte
	message *pluginapi.ListAndWatchResponse
}

// part is what the entries of one device say.
type part struct {
	uuid     gpu.UUID
	replicas int
	numaNode int
	healthy  bool
	// end is where they end in the wire form.
	end int
}

func (p part) says(q part) bool {
	p.end, q.end = 0, 0
	return p == q
}

// next returns the list of these devices, and whether it says anything else
// than l.
func (l list) next(devices []resource.Device) (list, bool) {
	changed := len(devices) != len(l.parts)
	n := list{parts: make([]part, 0, len(devices)), wire: make([]byte, 0, listBytes(devices, maxReplicas(devices)))}
	start := 0
	for i, d := range devices {
		p := part{uuid: d.UUID, replicas: max(d.Replicas, 1), numaNode: d.NUMANode, healthy: d.Health.Healthy}
		old := part{replicas: -1}
		if i < len(l.parts) {
			old = l.parts[i]
		}
		if p.says(old) {
			n.wire = append(n.wire, l.wire[start:old.end]...)
		} else {
			changed = true
			n.wire = appendEntries(n.wire, d)
		}
		start, p.end = old.end, len(n.wire)
		n.parts = append(n.parts, p)
	}
	if !changed && l.message != nil {
		return l, false
	}
	// The fields of a message that are not known are sent as they are.
	n.message = &pluginapi.ListAndWatchResponse{}
	n.message.ProtoReflect().SetUnknown(n.wire)
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

// appendEntries appends an entry for each replica of a device.
func appendEntries(wire []byte, d resource.Device) []byte {
	health, topology := status(d), topology(d)
	for n := range max(d.Replicas, 1) {
		id := d.ID(n)
		wire = protowire.AppendTag(wire, fieldDevices, protowire.BytesType)
		wire = protowire.AppendVarint(wire, uint64(entrySize(len(id), len(health), len(topology)))) //nolint:gosec // a length
		wire = protowire.AppendTag(wire, fieldID, protowire.BytesType)
		wire = protowire.AppendString(wire, id)
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
