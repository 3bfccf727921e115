package health

import (
	"cmp"
	"time"

	"outrigger.dev/pkg/gpu"
)

// Machine is the health of the GPUs of one node. It is not safe for concurrent
// use: one goroutine owns it and hands out Views.
//
// Its times are those of one clock that never goes back. A snapshot proves
// nothing about what happened after it was begun.
type Machine struct {
	rules Rules
	// driver is why no GPU can be used, empty while the driver answers.
	driver string
	// hang is why no GPU can be used, empty while the driver does not hang.
	hang string
	// cards are the GPUs of which anything was ever heard.
	cards map[gpu.UUID]*card
}

// New returns a Machine in which every GPU is healthy.
func New(rules Rules) *Machine {
	return &Machine{rules: rules, cards: map[gpu.UUID]*card{}}
}

// SetRules makes rules hold from now on. XIDs that count no more are forgotten.
func (m *Machine) SetRules(rules Rules) {
	m.rules = rules
	for _, c := range m.cards {
		c.forget(func(x cause) bool { return !rules.Counts(x.xid) })
	}
}

// Observe takes in a snapshot whose reading began at the time: a GPU or a MIG
// device with a fault, or one that is not there any more, is unfit until a later
// snapshot shows it sound. A sound one proves what ends the causes that events brought.
func (m *Machine) Observe(n *gpu.Node, at time.Time) {
	m.driver = ""
	seen := make(map[gpu.UUID]bool, len(n.GPUs))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.UUID == "" {
			continue
		}
		seen[g.UUID] = true
		m.card(g.UUID).observe(g, at, m.rules)
	}
	for id, c := range m.cards {
		if !seen[id] && c.present {
			c.leave()
		}
	}
}

// DriverGone makes every GPU unfit until the next snapshot. A driver that comes
// back has initialised its GPUs anew.
func (m *Machine) DriverGone(reason string) {
	m.driver = reason
	for _, c := range m.cards {
		c.away()
	}
}

// Hangs makes every GPU unfit, whatever else is observed, until it is called
// with an empty reason.
func (m *Machine) Hangs(reason string) { m.hang = reason }

// Apply takes in an event that was received at the time. An event that names no
// GPU concerns all of them. It returns whether the event counts against a GPU.
func (m *Machine) Apply(ev gpu.Event, at time.Time) bool {
	switch {
	case ev.Kind == gpu.EventXID && m.rules.Counts(ev.XID):
	case ev.Kind == gpu.EventLost:
	default:
		return false
	}
	if ev.GPU != "" {
		m.card(ev.GPU).apply(ev, at)
		return true
	}
	for _, c := range m.cards {
		c.apply(ev, at)
	}
	return len(m.cards) > 0
}

// NeedsLook reports whether an event says that a new snapshot shows more.
func NeedsLook(ev gpu.Event) bool {
	return ev.Kind != gpu.EventXID || ev.XID == recoveryChanged
}

// Reset forgets every cause that only an event brought; faults, and what the
// driver asks for, stay until the next snapshot.
func (m *Machine) Reset() {
	for _, c := range m.cards {
		c.lost = time.Time{}
		c.forget(func(cause) bool { return true })
	}
}

// View returns the health of all GPUs as it is now.
func (m *Machine) View() View {
	v := View{GPUs: map[gpu.UUID]Status{}, Instances: map[Instance]Status{}}
	all := cmp.Or(m.hang, m.driver)
	for id, c := range m.cards {
		if all != "" {
			v.GPUs[id] = Status{Reason: all}
			continue
		}
		for s, reason := range c.reasons(m.rules) {
			if s == whole() {
				v.GPUs[id] = Status{Reason: reason}
				continue
			}
			v.Instances[Instance{GPU: id, GPUInstance: s.gi, ComputeInstance: s.ci}] = Status{Reason: reason}
		}
	}
	return v
}

// Next returns the time at which a snapshot may show that a GPU is fit again of
// which no event tells, and false if there is none. The time does not change
// before something is observed or applied.
func (m *Machine) Next() (time.Time, bool) {
	var next time.Time
	if m.driver != "" || m.hang != "" {
		return next, false // whoever has told of it tells of its end
	}
	for _, c := range m.cards {
		at, ok := c.next(m.rules)
		if ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, !next.IsZero()
}

func (m *Machine) card(id gpu.UUID) *card {
	c := m.cards[id]
	if c == nil {
		c = newCard()
		m.cards[id] = c
	}
	return c
}
