package load

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"outrigger.dev/sim/internal/state"
)

// observed is a GPU of the node.
type observed struct {
	state.GPU
	state.Limits
}

// change has the writes for one GPU.
type change struct {
	slot state.Slot
	// values and instances have only values that differ from the GPU's. instances has values of GPU
	// instances by ID.
	values    map[string]uint64
	instances map[int]map[string]uint64
	attach    []state.Process
	drop      []int
}

func (c change) empty() bool {
	return len(c.values)+len(c.instances)+len(c.attach)+len(c.drop) == 0
}

// derive returns the changes that make GPUs show the loads of a record, and the record after the
// changes.
func derive(gpus []observed, r record, now time.Time) ([]change, record) {
	next := record{Loads: r.Loads}
	var changes []change
	for _, g := range gpus {
		d := derivation{gpu: g, was: r, now: now, change: change{slot: g.Slot}}
		d.derive()
		if !d.change.empty() {
			changes = append(changes, d.change)
		}
		for key, before := range d.before {
			if next.Before == nil {
				next.Before = map[string]map[string]uint64{}
			}
			next.Before[key] = before
		}
		if len(d.pids) > 0 {
			if next.PIDs == nil {
				next.PIDs = map[string][]int{}
			}
			next.PIDs[g.UUID] = d.pids
		}
	}
	return changes, next
}

// derivation derives the change of one GPU.
type derivation struct {
	gpu observed
	was record
	now time.Time

	change change
	before map[string]map[string]uint64
	pids   []int
}

// part is the place of a load on the GPU.
type part struct {
	// gi and ci are state.WholeGPU for the whole GPU.
	gi, ci int
	// ofInstance and ofGPU are the shares of the GPU instance and of the GPU, up to 1.
	ofInstance, ofGPU float64
}

func (d *derivation) derive() {
	whole := activity{}
	instances := map[int]activity{}
	room := d.room()
	var memory uint64
	loaded := false
	for _, l := range d.was.Loads {
		p, ok := d.part(l.Device)
		if !ok {
			continue
		}
		loaded = true
		values := l.activity(d.now)
		whole.add(values, p.ofGPU)
		if p.gi != state.WholeGPU {
			if instances[p.gi] == nil {
				instances[p.gi] = activity{}
			}
			instances[p.gi].add(values, p.ofInstance)
		}
		bytes := min(l.Memory, room[p.gi])
		room[p.gi] -= bytes
		if len(l.PIDs) > 0 {
			d.processes(l, p, values, bytes)
		} else if p.gi == state.WholeGPU {
			memory += bytes
		}
	}
	if loaded {
		d.settle(d.gpu.UUID, d.gpu.Values, d.values(whole.round(), memory), func(v map[string]uint64) { d.change.values = v })
	} else {
		d.settle(d.gpu.UUID, d.gpu.Values, nil, func(v map[string]uint64) { d.change.values = v })
	}
	d.instances(instances)
	d.dropProcesses()
}

// room returns the memory that loads can use, by GPU instance.
func (d *derivation) room() map[int]uint64 {
	used := d.base(memoryUsed)
	for _, p := range d.gpu.Processes {
		if !slices.Contains(d.was.PIDs[d.gpu.UUID], p.PID) {
			used += p.MemoryBytes
		}
	}
	room := map[int]uint64{state.WholeGPU: d.gpu.Memory - min(used, d.gpu.Memory)}
	for id, l := range d.gpu.Instances {
		room[id] = l.Memory
	}
	return room
}

// part returns the place of a device, and false if the GPU does not have it.
func (d *derivation) part(device string) (part, bool) {
	if device == d.gpu.UUID {
		return part{gi: state.WholeGPU, ci: state.WholeGPU, ofGPU: 1}, true
	}
	if d.gpu.MIG == nil {
		return part{}, false
	}
	for _, gi := range d.gpu.MIG.GPUInstances {
		for _, ci := range gi.ComputeInstances {
			if ci.UUID != device {
				continue
			}
			slices := max(d.gpu.Limits.Instances[gi.ID].Slices, 1)
			return part{
				gi: gi.ID, ci: ci.ID,
				ofInstance: float64(ci.Size) / float64(slices), ofGPU: float64(ci.Size) / float64(max(d.gpu.Slices, 1)),
			}, true
		}
	}
	return part{}, false
}

// instances settles all GPU instances.
func (d *derivation) instances(wanted map[int]activity) {
	if d.gpu.MIG == nil {
		return
	}
	for _, gi := range d.gpu.MIG.GPUInstances {
		key := d.gpu.UUID + "/" + strconv.Itoa(gi.ID)
		d.settle(key, gi.Values, wanted[gi.ID].round(), func(v map[string]uint64) {
			if d.change.instances == nil {
				d.change.instances = map[int]map[string]uint64{}
			}
			d.change.instances[gi.ID] = v
		})
	}
}

// settle compares values with wanted values. Fields that are no longer wanted get the value from
// before the loads. It passes the values that have to be written to set.
func (d *derivation) settle(key string, values, wanted map[string]uint64, set func(map[string]uint64)) {
	write := map[string]uint64{}
	before := map[string]uint64{}
	for field, v := range d.was.Before[key] {
		if _, ok := wanted[field]; !ok && values[field] != v {
			write[field] = v
		}
	}
	for field, v := range wanted {
		was, ok := d.was.Before[key][field]
		if !ok {
			was = values[field]
		}
		before[field] = was
		if values[field] != v {
			write[field] = v
		}
	}
	if len(write) > 0 {
		set(write)
	}
	if len(before) > 0 {
		if d.before == nil {
			d.before = map[string]map[string]uint64{}
		}
		d.before[key] = before
	}
}

// base returns the value of a field before the loads.
func (d *derivation) base(field string) uint64 {
	if v, ok := d.was.Before[d.gpu.UUID][field]; ok {
		return v
	}
	return d.gpu.Values[field]
}

// activity has values in percent, by the names of state.Activities.
type activity map[string]float64

// add adds a share of other values.
func (a activity) add(values map[string]uint64, share float64) {
	for field, v := range values {
		a[field] += float64(v) * share
	}
}

// round returns the values as integers of at most 100.
func (a activity) round() map[string]uint64 {
	out := make(map[string]uint64, len(a))
	for field, v := range a {
		out[field] = uint64(math.Round(min(v, full)))
	}
	return out
}

// processes plans the processes of a load.
func (d *derivation) processes(l Load, p part, values map[string]uint64, bytes uint64) {
	for _, pid := range l.PIDs {
		want := state.Process{
			PID: pid, GPUInstance: p.gi, ComputeInstance: p.ci, MemoryBytes: bytes / uint64(len(l.PIDs)),
			Use: state.Use{SM: uint32(values[smActive]), Memory: uint32(values[utilizationMemory])}, //nolint:gosec // percent
			// On such a GPU, a process that only shows a load must not exclude the server of MPS.
			MPS: d.gpu.ComputeMode == state.ExclusiveProcess,
		}
		i := slices.IndexFunc(d.gpu.Processes, func(p state.Process) bool {
			return p.PID == pid && p.GPUInstance == want.GPUInstance && p.ComputeInstance == want.ComputeInstance
		})
		ours := slices.Contains(d.was.PIDs[d.gpu.UUID], pid)
		if i >= 0 && !ours {
			continue // the process uses the GPU itself
		}
		if d.pids = append(d.pids, pid); i < 0 || d.gpu.Processes[i] != want {
			d.change.attach = append(d.change.attach, want)
		}
	}
	slices.Sort(d.pids)
	d.pids = slices.Compact(d.pids)
}

// dropProcesses plans the removal of processes that were attached, and have no load any more.
func (d *derivation) dropProcesses() {
	running := map[int]bool{}
	for _, p := range d.gpu.Processes {
		running[p.PID] = true
	}
	for _, pid := range d.was.PIDs[d.gpu.UUID] {
		if running[pid] && !slices.Contains(d.pids, pid) {
			d.change.drop = append(d.change.drop, pid)
		}
	}
}

// clone returns a record whose maps can be changed.
func (r record) clone() record {
	return record{Loads: r.Loads, Before: maps.Clone(r.Before), PIDs: maps.Clone(r.PIDs)}
}
