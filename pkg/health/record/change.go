package record

import (
	"slices"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

const (
	// resolution is the smallest difference between two times that causes a write.
	resolution = time.Second
	// jitter is the largest difference between the times at which two agents receive the same XID, plus
	// the error of a time in the file.
	jitter = 2 * resolution
)

// known has the incidents of this process as it last wrote or read them.
type known map[health.Key]health.Incident

// change is the difference between two states of the incidents of this process.
type change struct {
	// occurred has the incidents with a new XID, and marked the ones whose other fields have changed.
	occurred, marked []health.Incident
	// ended has the incidents that this process has forgotten.
	ended []health.Incident
}

// to returns the change to the incidents now.
func (k known) to(now []health.Incident) change {
	var c change
	present := map[health.Key]bool{}
	for _, in := range now {
		present[in.Key] = true
		old, has := k[in.Key]
		switch {
		case !has, in.Last.Sub(old.Last) >= resolution, old.Away && !in.Away:
			c.occurred = append(c.occurred, in)
		case in.Away != old.Away, in.Asked != old.Asked:
			in.Last = old.Last
			c.marked = append(c.marked, in)
		}
	}
	for key, old := range k {
		if !present[key] {
			c.ended = append(c.ended, old)
		}
	}
	return c
}

// record stores that a change was written.
func (k known) record(c change) {
	for _, in := range slices.Concat(c.occurred, c.marked) {
		k[in.Key] = in
	}
	for _, in := range c.ended {
		delete(k, in.Key)
	}
}

// apply applies a change to the file. It returns the GPUs with an XID that no other agent has written,
// and whether it changed t. energy has the energy counters of these GPUs. If two agents observe the same
// XIDs, the result does not depend on the order of their changes, except for times within the resolution.
func (t table) apply(c change, energy map[gpu.UUID]uint64) (gpus []gpu.UUID, changed bool) {
	for _, in := range c.occurred {
		e, has := t[in.Key]
		renews := in.Last.Sub(e.Last) >= resolution || e.Away && !in.Away && in.Last.After(e.Last)
		switch {
		case !has && len(t) >= mostIncidents:
			continue
		case !has:
			e = entry{Incident: in}
		case renews:
			in.Asked = in.Asked || e.Asked
			if e.First.Before(in.First) {
				in.First = e.First
			}
			e = entry{Incident: in}
		default:
			changed = t.mark(in) || changed
			continue
		}
		if mJ, read := energy[in.GPU]; read {
			e.energy = &mJ
		}
		t[in.Key], changed = e, true
		gpus = append(gpus, in.GPU)
	}
	for _, in := range c.marked {
		changed = t.mark(in) || changed
	}
	for _, in := range c.ended {
		// Another agent may have received a later XID.
		if e, has := t[in.Key]; has && e.Last.Sub(in.Last) < jitter {
			delete(t, in.Key)
			changed = true
		}
	}
	return gpus, changed
}

// mark adds what an agent has observed since an XID, and reports whether that is new. It does not add an
// incident that another agent has ended.
func (t table) mark(in health.Incident) (changed bool) {
	e, has := t[in.Key]
	if !has {
		return false
	}
	before := e.Incident
	e.Asked = e.Asked || in.Asked
	e.Away = e.Away || in.Away && e.Last.Sub(in.Last) < jitter
	t[in.Key] = e
	return e.Away != before.Away || e.Asked != before.Asked
}
