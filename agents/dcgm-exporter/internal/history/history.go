// Package history records the errors that the driver reported for a GPU, and the reasons that
// held down its clocks. It has no clock, and its size is bounded.
package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
)

// GPU is the history of one GPU. Its zero value is empty.
type GPU struct {
	xids   map[key]*record
	last   uint64
	lastAt time.Time

	held   uint64
	clocks map[int]*record
}

// key identifies an error by its code and its GPU instance.
type key struct {
	code     uint64
	instance uint32
}

// record counts the reports of an error, or the events of a clock reason.
type record struct {
	total uint64
	// The field from has the source of the last report, and last has its time.
	from Source
	last time.Time
	// times has the newest times, in order.
	times []time.Time
}

const (
	// mostTimes is the limit for the times of one record. It is also the largest count
	// within a window.
	mostTimes = 4096
	// mostCodes is the limit for the errors of one GPU, so that a driver with random codes
	// cannot fill the memory.
	mostCodes = 256
)

func (r *record) add(at time.Time) {
	r.times = append(r.times, at)
	if len(r.times) > mostTimes {
		r.times = slices.Delete(r.times, 0, len(r.times)-mostTimes)
	}
}

// recent returns the number of times within a window, and removes older times.
func (r *record) recent(now time.Time, window time.Duration) uint64 {
	i, _ := slices.BinarySearchFunc(r.times, now.Add(-window), time.Time.Compare)
	r.times = slices.Delete(r.times, 0, i)
	return uint64(len(r.times))
}

// Source is the source of the report of an error.
type Source int

// The sources of errors.
const (
	NVML Source = iota
	KernelLog
)

// sameErrorWithin is the longest time between the reports of the same error by two sources.
const sameErrorWithin = 5 * time.Second

// XID records an error. If two sources report the same error, only the first report counts.
func (g *GPU) XID(from Source, code uint64, instance uint32, at time.Time) {
	k := key{code, instance}
	if r := g.xids[k]; r != nil && r.from != from && at.Sub(r.last) < sameErrorWithin {
		return
	}
	g.last, g.lastAt = code, at
	if g.xids == nil {
		g.xids = map[key]*record{}
	}
	if g.xids[k] == nil {
		if len(g.xids) >= mostCodes {
			return
		}
		g.xids[k] = &record{}
	}
	g.xids[k].total++
	g.xids[k].from, g.xids[k].last = from, at
	g.xids[k].add(at)
}

// Last returns the code of the last error, or 0 for none.
func (g *GPU) Last() uint64 { return g.last }

// reasons returns DCGM Exporter's names for the reasons that hold down the clocks, in the order of
// the bits in nvml.h.
func reasons() []string {
	return []string{
		"gpu_idle", "clocks_setting", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks",
	}
}

// Clocks records a reading of the reasons that hold down the clocks.
func (g *GPU) Clocks(bits uint64, at time.Time) {
	if g.clocks == nil {
		g.clocks = map[int]*record{}
	}
	for i := range reasons() {
		bit := uint64(1) << i
		if bits&bit == 0 {
			continue
		}
		if g.clocks[i] == nil {
			g.clocks[i] = &record{}
		}
		if g.held&bit == 0 {
			g.clocks[i].total++
		}
		g.clocks[i].add(at)
	}
	g.held = bits
}

// Fill sets the fields of a served GPU from the history.
func (g *GPU) Fill(to *exposition.GPU, now time.Time, xidWindow, clockWindow time.Duration) {
	to.LastXID, to.LastXIDAt = g.last, g.lastAt
	to.XIDs, to.Clocks = nil, nil
	for k, r := range g.xids {
		to.XIDs = append(to.XIDs, exposition.XID{Code: k.code, Instance: k.instance, Total: r.total, Recent: r.recent(now, xidWindow)})
	}
	slices.SortFunc(to.XIDs, func(a, b exposition.XID) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Instance, b.Instance))
	})
	for _, i := range slices.Sorted(maps.Keys(g.clocks)) {
		r := g.clocks[i]
		to.Clocks = append(to.Clocks, exposition.ClockEvent{Reason: reasons()[i], Total: r.total, Recent: r.recent(now, clockWindow)})
	}
}
