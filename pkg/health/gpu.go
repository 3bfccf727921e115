package health

import (
	"slices"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// scope is the part of a GPU that an incident concerns.
type scope struct{ gi, ci uint32 }

// wholeGPU returns the scope of the whole GPU, with all of its MIG devices.
func wholeGPU() scope { return scope{gpu.NoInstance, gpu.NoInstance} }

// part is the state of an instance.
type part struct {
	// fault is the reason why it does not answer, empty if it answers.
	fault string
	// device is the UUID of the MIG device, empty for a GPU instance.
	device gpu.UUID
}

// gpuState is the known state of the health of one GPU.
type gpuState struct {
	// present is set while the newest snapshot has the GPU. The field seen is the time at which the
	// reading of that snapshot began.
	present bool
	seen    time.Time
	// fault is the reason why the GPU does not answer, empty if it answers.
	fault string
	// lost is the time when the GPU was reported as lost, zero if it has answered since.
	lost time.Time
	// recovery, memory and fabric are the lasting state that the driver last reported.
	recovery gpu.Recovery
	memory   []gpu.MemoryFault
	fabric   *gpu.Fabric
	// parts has the existing instances. gone has instances that existed before.
	parts map[scope]part
	gone  map[scope]bool
	// causes has at most one incident for each XID, in the order of their first times.
	causes map[scope][]incident
}

func newState() *gpuState { return &gpuState{gone: map[scope]bool{}, causes: map[scope][]incident{}} }

// observe applies the GPU's state in a snapshot.
func (g *gpuState) observe(seen *gpu.GPU, at time.Time, rules Rules) {
	g.present, g.seen, g.fault = true, at, ""
	if seen.Fault == nil || seen.Recovery != gpu.RecoveryUnknown {
		g.recovery = seen.Recovery
	}
	if seen.Fault != nil {
		g.fault = seen.Fault.Error()
		g.memory, g.fabric = nil, nil // they are not known
		g.markSilent()
		return
	}
	g.memory, g.fabric = seen.MemoryFaults, seen.Fabric
	g.recordParts(seen.MIG)
	if at.After(g.lost) {
		g.lost = time.Time{}
	}
	for s, list := range g.causes {
		for i := range list {
			list[i].asked = list[i].asked || needed(g.recovery)
		}
		g.retain(s, func(x incident) bool { return g.outlives(s, x, rules) })
	}
}

// recordParts records which instances the GPU has.
func (g *gpuState) recordParts(mig *gpu.MIG) {
	for s := range g.parts {
		// A faulty MIG device whose instances could not be read does not count as an instance that
		// existed.
		if s != wholeGPU() {
			g.gone[s] = true
		}
	}
	g.parts = map[scope]part{}
	if mig == nil {
		return
	}
	for _, d := range mig.Devices {
		fault := ""
		if d.Fault != nil {
			fault = d.Fault.Error()
		}
		gi, ci := scope{d.GPUInstance, gpu.NoInstance}, scope{d.GPUInstance, d.ComputeInstance}
		g.parts[gi], g.parts[ci] = part{}, part{fault: fault, device: d.UUID}
		delete(g.gone, gi)
		delete(g.gone, ci)
	}
}

// outlives reports whether an incident stays although the GPU answers in the newest snapshot.
func (g *gpuState) outlives(s scope, x incident, rules Rules) bool {
	over := !g.seen.Before(x.last.Add(rules.quiet()))
	switch {
	case !g.seen.After(x.last):
		return true // the reading of the snapshot began before the XID
	case s != wholeGPU() && !g.hasPart(s, x.device):
		return false // the part that the XID hit no longer exists
	case x.xid == recoveryChanged && g.recovery != gpu.RecoveryUnknown:
		return false // the snapshot already shows the state that the XID reported
	case g.asksForRecovery(rules), !g.lost.IsZero(), needed(g.recovery) && x.end() != afterQuiet:
		return true
	case x.away:
		return false
	case g.recovery != gpu.RecoveryUnknown && !needed(g.recovery):
		// The driver reports that the GPU needs nothing. If the driver has never asked for a
		// recovery, it has the quiet window to do so.
		return !x.asked && !over
	default:
		return x.end() != afterQuiet || !over
	}
}

// asksForRecovery reports whether the driver asks for a recovery action that makes the GPU unhealthy
// by the rules.
func (g *gpuState) asksForRecovery(rules Rules) bool {
	return needed(g.recovery) && fails(Lasting(&gpu.GPU{Recovery: g.recovery}, rules))
}

// needed reports whether a GPU needs a recovery action to be healthy. It returns false for an
// action of the IMEX domain, because only programs that span several nodes need the domain.
func needed(r gpu.Recovery) bool { return r.Needed() && r != gpu.RecoveryIMEXDomain }

// hasPart reports whether a part exists. The ID of an instance can belong to another MIG device later. If
// the UUID of the device is not known, the ID decides.
func (g *gpuState) hasPart(s scope, device gpu.UUID) bool {
	p, ok := g.parts[s]
	return ok && (device == "" || p.device == "" || p.device == device)
}

// markAbsent records that the GPU has left the node.
func (g *gpuState) markAbsent() {
	g.present, g.fault = false, "gpu is gone from the node"
	g.markSilent()
}

// markSilent records that the GPU does not answer.
func (g *gpuState) markSilent() {
	for _, list := range g.causes {
		for i := range list {
			list[i].away = true
		}
	}
}

// apply applies an event that is not ignored.
func (g *gpuState) apply(ev gpu.Event, at time.Time) {
	if ev.Kind == gpu.EventLost {
		g.lost = at
		g.markSilent()
		return
	}
	s := scope{ev.GPUInstance, ev.ComputeInstance}
	if s.gi == gpu.NoInstance || g.present && len(g.parts) == 0 {
		s = wholeGPU()
	}
	// An XID of a GPU that does not answer has the same cause as the silence.
	away := g.fault != "" || !g.lost.IsZero()
	list, known := g.causes[s], false
	for i := range list {
		known = known || list[i].xid == ev.XID
		if list[i].end() == endOf(ev.XID) {
			list[i].last, list[i].away, list[i].restored = at, away, false
		}
	}
	if !known {
		g.causes[s] = append(list, incident{
			xid: ev.XID, first: at, last: at, device: g.parts[s].device, away: away, asked: needed(g.recovery),
		})
	}
}

// retain removes the incidents of a part for which holds returns false.
func (g *gpuState) retain(s scope, holds func(incident) bool) {
	g.causes[s] = slices.DeleteFunc(g.causes[s], func(x incident) bool { return !holds(x) })
	if len(g.causes[s]) == 0 {
		delete(g.causes, s)
	}
}

// findings returns the faults of each part. The first finding with severity Failure decides about the
// Kind of the part's Status.
func (g *gpuState) findings(rules Rules) map[scope][]Finding {
	out := map[scope][]Finding{}
	add := func(s scope, f Finding) {
		if f.Text != "" {
			out[s] = append(out[s], f)
		}
	}
	fault := Finding{Class: Unreadable, Severity: Failure, Kind: cause.DeviceFault, Text: g.fault}
	if !g.present {
		fault.Class, fault.Kind = Lost, cause.DeviceLost
	}
	add(wholeGPU(), fault)
	if !g.lost.IsZero() {
		add(wholeGPU(), Finding{Class: Lost, Severity: Failure, Kind: cause.DeviceLost, Text: "gpu is lost"})
	}
	for _, f := range Lasting(&gpu.GPU{Recovery: g.recovery, MemoryFaults: g.memory, Fabric: g.fabric}, rules) {
		add(wholeGPU(), f)
	}
	for s, p := range g.parts {
		add(s, Finding{Class: Unreadable, Severity: Failure, Kind: cause.DeviceFault, Text: p.fault})
	}
	for s := range g.gone {
		add(s, Finding{Class: Lost, Severity: Failure, Kind: cause.DeviceLost, Text: "mig device is gone from its gpu"})
	}
	for s, list := range g.causes {
		for _, x := range gravestOf(list, rules) {
			add(s, x.finding(rules, g.recovery))
		}
	}
	return out
}

// statusOf returns the status of a part with findings. It is healthy if none is a failure.
func statusOf(found []Finding) Status {
	st := Status{Healthy: true}
	for _, f := range found {
		switch {
		case f.Severity != Failure:
		case st.Healthy:
			st = Status{Kind: f.Kind, Reason: f.reason()}
		default:
			st.Reason += "; " + f.reason()
		}
	}
	return st
}

// next returns when a snapshot may show more than the newest one. It returns false for a GPU that left
// the node, because the return of the GPU causes an event.
func (g *gpuState) next(rules Rules) (time.Time, bool) {
	var next time.Time
	if !g.present {
		return next, false
	}
	earlier := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, list := range g.causes {
		for _, x := range list {
			if at := x.last.Add(rules.quiet()); at.After(g.seen) {
				earlier(at)
			}
		}
	}
	if g.troubled(rules) {
		earlier(g.seen.Add(rules.quiet()))
	}
	return next, !next.IsZero()
}

// troubled reports whether the newest snapshot shows a failure that may end without an event.
func (g *gpuState) troubled(rules Rules) bool {
	if g.fault != "" || !g.lost.IsZero() || g.asksForRecovery(rules) || needed(g.recovery) && len(g.causes) > 0 {
		return true
	}
	for _, p := range g.parts {
		if p.fault != "" {
			return true
		}
	}
	return false
}
