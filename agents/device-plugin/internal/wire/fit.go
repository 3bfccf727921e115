package wire

import (
	"slices"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/resource"
)

// MaxListBytes is the size of the largest List that a kubelet accepts: grpc-go's
// default for a received message, which the kubelet keeps. A larger one ends the
// stream, and with it the resource.
const MaxListBytes = 4 << 20

// Fit returns r with as many replicas of each device as fit in a List, and the number
// of replicas that it leaves out. It lowers the devices with the most replicas to one
// common limit, and does not depend on their health.
//
// A List holds about 63,000 entries: 3,900 replicas of each of 16 GPUs, or 560
// of each of 112 MIG devices.
func Fit(r resource.Resource) (resource.Resource, int) {
	if listBytes(r.Devices, maxReplicas(r.Devices)) <= MaxListBytes {
		return r, 0
	}
	// The lowest limit that is too high.
	limit := sort.Search(maxReplicas(r.Devices), func(n int) bool { return listBytes(r.Devices, n) > MaxListBytes })
	limit = max(limit-1, 1)
	out, left := r, 0
	out.Devices = slices.Clone(r.Devices)
	for i, d := range out.Devices {
		out.Devices[i].Replicas = min(d.Replicas, limit)
		left += d.Replicas - out.Devices[i].Replicas
	}
	return out, left
}

func maxReplicas(devices []resource.Device) int {
	most := 1
	for _, d := range devices {
		most = max(most, d.Replicas)
	}
	return most
}

// listBytes returns the largest size of a List of these devices if none has more than
// limit replicas.
func listBytes(devices []resource.Device, limit int) int {
	total := 0
	for _, d := range devices {
		n := min(max(d.Replicas, 1), limit)
		longest := entrySize(len(d.ID(n-1)), len(pluginapi.Unhealthy), len(topology(d)))
		total += n * (protowire.SizeTag(fieldDevices) + protowire.SizeBytes(longest))
	}
	return total
}
