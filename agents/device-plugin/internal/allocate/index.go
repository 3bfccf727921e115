package allocate

import (
	"encoding/binary"
	"math/bits"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// index finds devices by UUID. It is the inner loop of a request, which can name thousands
// of replicas of a hundred devices in any order. A map would spend most of the time on
// hashing whole UUIDs; index hashes the end, in which the UUIDs of a node differ.
type index struct {
	// table has 1 + the position of each device, at the place of its hash or after it.
	// At least half of the entries are 0, which ends a search.
	table []int32
	shift int
	uuids []gpu.UUID
}

func newIndex(devices []resource.Device) index {
	size := bits.Len(uint(2 * len(devices))) // a power of 2 that is more than twice as many
	x := index{table: make([]int32, 1<<size), shift: 64 - size, uuids: make([]gpu.UUID, len(devices))}
	for i, d := range devices {
		x.uuids[i] = d.UUID
		x.table[x.place([]byte(d.UUID))] = int32(i + 1) //nolint:gosec // there are fewer devices
	}
	return x
}

// find returns the position of the device.
func (x *index) find(uuid []byte) (int, bool) {
	i := x.table[x.place(uuid)]
	return int(i) - 1, i > 0
}

// place returns where in the table the device is, or would be.
func (x *index) place(uuid []byte) int {
	at := x.hash(uuid)
	for x.table[at] != 0 && string(x.uuids[x.table[at]-1]) != string(uuid) {
		at = (at + 1) % len(x.table)
	}
	return at
}

// hash returns a place for the last 16 bytes of the UUID.
func (x *index) hash(uuid []byte) int {
	var high, low uint64
	if n := len(uuid); n >= 16 {
		high, low = binary.LittleEndian.Uint64(uuid[n-16:]), binary.LittleEndian.Uint64(uuid[n-8:])
	} else {
		for _, b := range uuid {
			high, low = high<<8|low>>56, low<<8|uint64(b)
		}
	}
	const golden = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio mixes all bits into the high ones
	return int((high*golden ^ low) * golden >> x.shift)
}
