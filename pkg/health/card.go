package health

import (
	"slices"
	"strings"
	"time"

	"outrigger.dev/pkg/gpu"
)

// scope is the part of a GPU that a cause concerns.
type scope struct{ gi, ci uint32 }

// whole is the scope of all of a GPU, and so of all of its MIG devices.
func whole() scope { return scope{gpu.NoInstance, gpu.NoInstance} }

// cause is an XID for which a part of a GPU is unfit.
type cause struct {
	// xid is the first of its class, since later ones often only follow from it.
	xid   uint64
	class Class
	// last is when the last XID of the class came.
	last time.Time
	// away is set once the GPU did not answer after the XID: when it does, it
	// was initialised anew.
	away bool
	// asked is set once the driver has asked for a recovery since the XID.
	asked bool
}

// card is what is known of the health of one GPU.
type card struct {
	// present is set while the newest snapshot has the GPU, which is from seen.
	present bool
	seen    time.Time
	// fault is why the GPU does not answer, empty if it does.
	fault string
	// lost is when the GPU was reported as lost, zero if it has answered since.
	lost     time.Time
	recovery gpu.Recovery
	// parts are the instances that exist, each with its fault or "", and gone
	// those that existed once.
	parts map[scope]string
	gone  map[scope]bool
	// causes has at most one for each class of XIDs.
	causes map[scope][]cause
}

func newCard() *card { return &card{gone: map[scope]bool{}, causes: map[scope][]cause{}} }

// observe takes in what a snapshot shows of the GPU.
func (c *card) observe(g *gpu.GPU, at time.Time, rules Rules) {
	c.present, c.seen, c.fault = true, at, ""
	if g.Fault == nil || g.Recovery != gpu.RecoveryUnknown {
		c.recovery = g.Recovery
	}
	if g.Fault != nil {
		c.fault = g.Fault.Error()
		c.away()
		return
	}
	c.takeParts(g.MIG)
	if at.After(c.lost) {
		c.lost = time.Time{}
	}
	for s, list := range c.causes {
		for i := range list {
			list[i].asked = list[i].asked || needed(c.recovery)
		}
		c.keep(s, func(x cause) bool { return c.holds(s, x, rules) })
	}
}

// takeParts notes which instances the GPU has.
func (c *card) takeParts(mig *gpu.MIG) {
	for s := range c.parts {
		c.gone[s] = true
	}
	c.parts = map[scope]string{}
	if mig == nil {
		return
	}
	for _, d := range mig.Devices {
		fault := ""
		if d.Fault != nil {
			fault = d.Fault.Error()
		}
		gi, ci := scope{d.GPUInstance, gpu.NoInstance}, scope{d.GPUInstance, d.ComputeInstance}
		c.parts[gi], c.parts[ci] = "", fault
		delete(c.gone, gi)
		delete(c.gone, ci)
	}
}

// holds reports whether a cause outlives the newest snapshot, in which the GPU
// answers.
func (c *card) holds(s scope, x cause, rules Rules) bool {
	over := !c.seen.Before(x.last.Add(rules.quiet()))
	switch {
	case !c.seen.After(x.last):
		return true // the snapshot is from before
	case s != whole() && !c.has(s):
		return false // what was hit is gone
	case x.xid == recoveryChanged && c.recovery != gpu.RecoveryUnknown:
		return false // what the XID pointed at is known by itself
	case c.asks(rules), !c.lost.IsZero(), needed(c.recovery) && x.class != ClassQuiet:
		return true
	case x.away:
		return false
	case c.recovery != gpu.RecoveryUnknown && !needed(c.recovery):
		// The driver knows what the GPU needs, and its word is proof. If it never
		// asked for anything it gets the quiet window to come to that.
		return !x.asked && !over
	default:
		return x.class != ClassQuiet || !over
	}
}

// asks reports whether the driver asks for a recovery, and that counts.
func (c *card) asks(rules Rules) bool {
	return needed(c.recovery) && rules.Counts(recoveryChanged)
}

// needed reports whether a driver asks for a recovery of the GPU. The domain of
// IMEX is that of several nodes: programs that do not span them do not need it.
func needed(r gpu.Recovery) bool { return r.Needed() && r != gpu.RecoveryIMEXDomain }

func (c *card) has(s scope) bool {
	_, ok := c.parts[s]
	return ok
}

// leave notes that the GPU is gone from the node.
func (c *card) leave() {
	c.present, c.fault = false, "gpu is gone from the node"
	c.away()
}

// away notes that the GPU does not answer.
func (c *card) away() {
	for _, list := range c.causes {
		for i := range list {
			list[i].away = true
		}
	}
}

// apply takes in an event that counts.
func (c *card) apply(ev gpu.Event, at time.Time) {
	if ev.Kind == gpu.EventLost {
		c.lost = at
		c.away()
		return
	}
	s := scope{ev.GPUInstance, ev.ComputeInstance}
	if s.gi == gpu.NoInstance || c.present && len(c.parts) == 0 {
		s = whole()
	}
	// An XID of a GPU that does not answer is part of the same trouble.
	away := c.fault != "" || !c.lost.IsZero()
	class := ClassOf(ev.XID)
	list := c.causes[s]
	i := slices.IndexFunc(list, func(x cause) bool { return x.class == class })
	if i < 0 {
		c.causes[s] = append(list, cause{xid: ev.XID, class: class, last: at, away: away, asked: needed(c.recovery)})
		return
	}
	list[i].last, list[i].away = at, away
}

// forget drops the causes for which drop holds.
func (c *card) forget(drop func(cause) bool) {
	for s := range c.causes {
		c.keep(s, func(x cause) bool { return !drop(x) })
	}
}

// keep drops the causes of a part for which holds does not.
func (c *card) keep(s scope, holds func(cause) bool) {
	c.causes[s] = slices.DeleteFunc(c.causes[s], func(x cause) bool { return !holds(x) })
	if len(c.causes[s]) == 0 {
		delete(c.causes, s)
	}
}

// reasons returns why which parts are unfit.
func (c *card) reasons(rules Rules) map[scope]string {
	all := map[scope][]string{}
	add := func(s scope, reason string) {
		if reason != "" {
			all[s] = append(all[s], reason)
		}
	}
	add(whole(), c.fault)
	if !c.lost.IsZero() {
		add(whole(), "gpu is lost")
	}
	if c.asks(rules) {
		add(whole(), Asked(c.recovery))
	}
	for s, fault := range c.parts {
		add(s, fault)
	}
	for s := range c.gone {
		add(s, "mig device is gone from its gpu")
	}
	for s, list := range c.causes {
		gravest := slices.MaxFunc(list, func(a, b cause) int { return int(a.class) - int(b.class) })
		add(s, describe(gravest.xid, rules.quiet()))
	}
	out := make(map[scope]string, len(all))
	for s, reasons := range all {
		out[s] = strings.Join(reasons, "; ")
	}
	return out
}

// Asked tells a recovery without which, as the driver says, a GPU is not sound.
// It is empty for all others.
func Asked(r gpu.Recovery) string {
	if !needed(r) {
		return ""
	}
	switch r {
	case gpu.RecoveryReset:
		return "the driver asks for a reset of the GPU"
	case gpu.RecoveryReboot:
		return "the driver asks for a reboot of the node"
	case gpu.RecoveryDrainP2P:
		return "the driver asks to end the programs that use peer-to-peer traffic"
	case gpu.RecoveryDrainAndReset:
		return "the driver asks to let programs end, and then for a reset of the GPU"
	default:
		return "the driver asks for the recovery action " + string(r)
	}
}

// next returns when a snapshot may show more than the newest one. Of a GPU that
// comes back an event tells.
func (c *card) next(rules Rules) (time.Time, bool) {
	var next time.Time
	if !c.present {
		return next, false
	}
	earlier := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, list := range c.causes {
		for _, x := range list {
			if at := x.last.Add(rules.quiet()); at.After(c.seen) {
				earlier(at)
			}
		}
	}
	if c.troubled(rules) {
		earlier(c.seen.Add(rules.quiet()))
	}
	return next, !next.IsZero()
}

// troubled reports whether the newest snapshot shows something that may end
// without an event.
func (c *card) troubled(rules Rules) bool {
	if c.fault != "" || !c.lost.IsZero() || c.asks(rules) || needed(c.recovery) && len(c.causes) > 0 {
		return true
	}
	for _, fault := range c.parts {
		if fault != "" {
			return true
		}
	}
	return false
}
