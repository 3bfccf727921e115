package index

import (
	"slices"
	"time"

	"outrigger.dev/pkg/gpu"
)

// mostMIG is the number of MIG devices that a table remembers for a GPU. It keeps the file of a node
// with 16 GPUs within the size that package contract reads.
const mostMIG = 24

// mostKept is the number of names, of choices and of first indices that a table remembers. If there are
// more, it forgets devices that have left the node.
const mostKept = 128

// slot is the GPU of an index. id is empty while only the place of the GPU on the bus is known.
type slot struct {
	id  gpu.UUID
	bus string
}

// instances are the MIG devices of a GPU by index. They include destroyed devices whose indices are
// not free yet. No new device gets an index below floor. The devices in loose may be destroyed by an
// announced change, whose deadline is changing: if such a device disappears before the deadline, its
// index becomes free. The deadline counts if the agent that makes the change is killed.
type instances struct {
	byIndex map[int]gpu.UUID
	// places has the part of the usual name of a device that differs between the devices of the GPU, or
	// aliased if another device in byIndex had the name first.
	places   map[gpu.UUID]string
	floor    int
	loose    map[gpu.UUID]bool
	changing time.Time
}

// table maps indices to GPUs and MIG devices. An entry of a GPU never changes and is never removed.
type table struct {
	gpus map[int]slot
	mig  map[gpu.UUID]*instances
	// numbers has the number of each GPU in the names of ResourceSlices.
	numbers map[gpu.UUID]int
	// choices is gpu.Node.Choices.
	choices map[gpu.UUID]string
	// since has the first index of each GPU. Only the file that survives a reboot has it.
	since map[gpu.UUID]int
}

func newTable() table {
	return table{
		gpus: map[int]slot{}, mig: map[gpu.UUID]*instances{},
		numbers: map[gpu.UUID]int{}, choices: map[gpu.UUID]string{}, since: map[gpu.UUID]int{},
	}
}

// pinned has the indices of the GPUs of a node and of the MIG devices of each GPU, in the order of NVML.
type pinned struct {
	gpus []int
	mig  [][]int
}

// pin returns the indices for a node as NVML lists it, and adds new GPUs and MIG devices to the
// table. The GPUs of the first node get NVML's indices. Between them, the table reserves indices for
// GPUs that NVML hides from this process: hidden has their bus IDs. A later GPU gets the index above the
// highest one. A GPU or MIG device without UUID and bus ID gets NVML's index if it is free now, and is
// not stored.
func (t *table) pin(n *gpu.Node, hidden []string) pinned {
	first := len(t.gpus) == 0
	out := pinned{gpus: make([]int, len(n.GPUs)), mig: make([][]int, len(n.GPUs))}
	used := map[int]bool{}
	var later []int
	for i := range n.GPUs {
		at, known := t.find(&n.GPUs[i], n)
		if !known && first {
			at, known = n.GPUs[i].Index+below(hidden, n.GPUs[i].PCI.BusID), true
		}
		if !known || used[at] {
			later = append(later, i)
			continue
		}
		out.gpus[i], used[at] = at, true
		t.store(at, &n.GPUs[i])
	}
	if first {
		t.reserve(n, hidden, used)
	}
	for _, i := range later {
		at := t.next(used)
		if g := &n.GPUs[i]; g.UUID == "" && g.PCI.BusID == "" && !used[g.Index] {
			at = g.Index // it is not stored
		}
		out.gpus[i], used[at] = at, true
		t.store(at, &n.GPUs[i])
	}
	for i := range n.GPUs {
		out.mig[i] = t.pinMIG(&n.GPUs[i])
	}
	t.nameGPUs(n)
	return out
}

// find returns the index of a GPU. It compares UUIDs or, if the GPU or the entry has no UUID, places on
// the bus. If several entries have the same place, the highest index belongs to the newest GPU.
func (t *table) find(g *gpu.GPU, n *gpu.Node) (at int, known bool) {
	at = -1
	for i, s := range t.gpus {
		switch {
		case g.UUID != "" && s.id == g.UUID:
			return i, true
		case s.bus == "" || s.bus != g.PCI.BusID || i < at:
		case g.UUID != "" && s.id == "", g.UUID == "" && n.ByUUID(s.id) == nil:
			at = i
		}
	}
	return at, at >= 0
}

// store remembers the GPU of an index.
func (t *table) store(at int, g *gpu.GPU) {
	s := t.gpus[at]
	if g.UUID != "" {
		s.id = g.UUID
	}
	if g.PCI.BusID != "" {
		s.bus = g.PCI.BusID
	}
	if s != (slot{}) {
		t.gpus[at] = s
	}
}

// reserve keeps indices for GPUs that NVML hides from this process, and shows to others.
func (t *table) reserve(n *gpu.Node, hidden []string, used map[int]bool) {
	for _, bus := range hidden {
		at := 0
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.PCI.BusID < bus {
				at = max(at, g.Index+1)
			}
		}
		if at += below(hidden, bus); used[at] {
			at = t.next(used)
		}
		used[at], t.gpus[at] = true, slot{bus: bus}
	}
}

// below returns the number of hidden GPUs in front of a place on the bus.
func below(hidden []string, bus string) (count int) {
	for _, h := range hidden {
		if bus != "" && h < bus {
			count++
		}
	}
	return count
}

// next returns the index above the highest one.
func (t *table) next(used map[int]bool) int {
	at := 0
	for i := range t.gpus {
		at = max(at, i+1)
	}
	for i := range used {
		at = max(at, i+1)
	}
	return at
}

// pinMIG returns the indices of the MIG devices of a GPU. A new device gets NVML's index if that was
// not used before, otherwise the lowest such index.
func (t *table) pinMIG(g *gpu.GPU) []int {
	if g.MIG == nil || g.UUID == "" {
		return nil
	}
	in := t.instances(g.UUID)
	in.free(g.MIG.Devices)
	out := make([]int, len(g.MIG.Devices))
	used := map[int]bool{}
	var later []int
	for i, d := range g.MIG.Devices {
		at, known := in.find(d.UUID)
		if !known {
			later = append(later, i)
			continue
		}
		out[i], used[at] = at, true
	}
	for _, i := range later {
		d, at := g.MIG.Devices[i], g.MIG.Devices[i].Index
		free := func() bool { return !in.taken(at) && !used[at] }
		if !free() {
			for at = in.floor; !free(); at++ {
			}
		}
		if out[i], used[at] = at, true; d.UUID != "" {
			in.byIndex[at] = d.UUID
		}
	}
	in.nameDevices(g.MIG.Devices)
	if len(in.byIndex) > mostMIG {
		in.shorten(g.MIG.Devices)
	}
	return out
}

func (in *instances) find(id gpu.UUID) (at int, known bool) {
	for i, of := range in.byIndex {
		if of == id && id != "" {
			return i, true
		}
	}
	return 0, false
}

func (in *instances) taken(at int) bool {
	_, used := in.byIndex[at]
	return used || at < in.floor
}

// shorten forgets devices that were destroyed, and keeps their indices from being used again.
func (in *instances) shorten(existing []gpu.MIGDevice) {
	for at, id := range in.byIndex {
		if in.floor = max(in.floor, at+1); !has(existing, id) {
			delete(in.byIndex, at)
		}
	}
}

func has(devices []gpu.MIGDevice, id gpu.UUID) bool {
	return slices.ContainsFunc(devices, func(d gpu.MIGDevice) bool { return d.UUID == id })
}

// free frees the indices of loose devices that do not exist any more. After that, no device of the GPU
// is loose.
func (in *instances) free(existing []gpu.MIGDevice) {
	changed := false
	for at, id := range in.byIndex {
		if in.loose[id] && !has(existing, id) {
			changed = true
			if time.Now().Before(in.changing) {
				delete(in.byIndex, at)
			}
		}
	}
	if changed {
		clear(in.loose)
	}
}

// loosen makes loose each MIG device of a GPU that is not held. Until the deadline, the next change of
// the GPU's MIG devices frees the indices of loose devices.
func (t *table) loosen(g *gpu.GPU, held func(gpu.UUID) bool, until time.Time) {
	in := t.instances(g.UUID)
	in.loose, in.changing = map[gpu.UUID]bool{}, until
	for _, id := range in.byIndex {
		if !held(id) {
			in.loose[id] = true
		}
	}
}

// release frees the indices of MIG devices that do not exist any more and are not held.
func (t *table) release(n *gpu.Node, held func(gpu.UUID) bool) {
	for i := range n.GPUs {
		g := &n.GPUs[i]
		in := t.mig[g.UUID]
		if g.Fault != nil || g.MIG == nil || in == nil {
			continue
		}
		for at, id := range in.byIndex {
			if !has(g.MIG.Devices, id) && !held(id) {
				delete(in.byIndex, at)
			}
		}
	}
}
