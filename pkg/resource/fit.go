package resource

import (
	"math/bits"
	"sort"
)

// MaxListBytes is the size of the largest device list that a kubelet accepts: grpc-go's default for
// a received message, which the kubelet does not change. A larger list ends the stream and the
// resource.
const MaxListBytes = 4 << 20

// fit limits the replicas of each device to the highest number that keeps the list of all devices
// within MaxListBytes. The limit does not depend on the health of the devices.
//
// A list holds about 63,000 entries: 3,900 replicas of each of 16 GPUs, or 560 of each of
// 112 MIG devices.
func (d *derivation) fit(r *Resource) {
	most := 1
	for _, dev := range r.Devices {
		most = max(most, dev.Replicas)
	}
	if listBytes(r.Devices, most) <= MaxListBytes {
		return
	}
	// The lowest limit that is too high.
	limit := sort.Search(most, func(n int) bool { return listBytes(r.Devices, n) > MaxListBytes })
	limit = max(limit-1, 1)
	wanted, fitting := 0, 0
	for i := range r.Devices {
		wanted += r.Devices[i].Replicas
		r.Devices[i].Replicas = min(r.Devices[i].Replicas, limit)
		fitting += r.Devices[i].Replicas
	}
	d.addNote("sharing of %s: only %d of %d replicas fit in the list that the kubelet accepts, at most %d for each device: configure fewer", r.Name, fitting, wanted, limit)
}

// listBytes returns the largest size of a ListAndWatchResponse (device plugin API, v1beta1) with
// these devices, if no device has more than limit replicas.
func listBytes(devices []Device, limit int) int {
	total := 0
	for _, d := range devices {
		n := min(max(d.Replicas, 1), limit)
		entry := fieldBytes(len(d.ID(n-1))) + fieldBytes(len("Unhealthy")) + topologyBytes(d)
		total += n * fieldBytes(entry)
	}
	return total
}

// topologyBytes returns the size of the field with a device's NUMA node.
func topologyBytes(d Device) int {
	if d.NUMANode < 0 {
		return 0
	}
	node := 0 // the number 0 is not written
	if d.NUMANode > 0 {
		node = 1 + varintBytes(d.NUMANode)
	}
	return fieldBytes(fieldBytes(node))
}

// fieldBytes returns the size of an encoded field with this size of content (Protocol Buffers,
// "Encoding") and a number below 16.
func fieldBytes(content int) int { return 1 + varintBytes(content) + content }

// varintBytes returns the size of an encoded number that is not negative.
func varintBytes(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 } //nolint:gosec // lengths are not negative
