package allocate

import (
	"fmt"
	"slices"
	"testing"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

// Devices are distinguished also where the index cannot do it at once: by short
// UUIDs, and by such as have the same end.
func TestIndexFindsEachDevice(t *testing.T) {
	var uuids []string
	for i := range 300 {
		uuids = append(uuids, fmt.Sprint(i), fmt.Sprintf("GPU-%d", i), fmt.Sprintf("GPU-%04d-0123456789", i), fmt.Sprintf("GPU-0123456789-%04d", i))
	}
	for n := range len(uuids) {
		var devices []resource.Device
		for _, id := range uuids[:n] {
			devices = append(devices, resource.Device{UUID: gpu.UUID(id)})
		}
		x := newIndex(devices)
		for i, id := range uuids {
			if n%100 != 0 && i < n-1 { // each is enough once in a while
				continue
			}
			got, ok := x.find([]byte(id))
			if ok != (i < n) || ok && got != i {
				t.Fatalf("of %d devices %q is %d, %t, want %d, %t", n, id, got, ok, i, i < n)
			}
		}
		if got, ok := x.find(nil); ok {
			t.Fatalf("of %d devices nothing is %d", n, got)
		}
	}
}

// Most devices are found at the first position, also where the last eight
// bytes of UUIDs are the same on all GPUs.
func TestIndexSpreadsDevices(t *testing.T) {
	node := gputest.Divided(gputest.A100, 16, slices.Repeat([][]string{gputest.Times(7, "1g.5gb")}, 16)...)
	var devices []resource.Device
	for _, g := range node.GPUs {
		for _, d := range g.MIG.Devices {
			devices = append(devices, resource.Device{UUID: d.UUID})
		}
	}
	x := newIndex(devices)
	far := 0
	for _, d := range devices {
		id := []byte(d.UUID)
		far += (x.place(id) - x.hash(id) + len(x.table)) % len(x.table)
	}
	if far > len(devices) {
		t.Errorf("%d devices are %d places from their first position, want less than one each", len(devices), far)
	}
}
