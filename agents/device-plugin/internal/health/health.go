// Package health decides which GPUs may be handed out.
//
// It stands between what is observed (events and snapshots of pkg/gpu) and
// what is derived from it (internal/resource): a state machine without I/O and
// without a clock, so that every sequence of events can be replayed in a test.
package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
)

// Status says whether a GPU may be handed out, and if not, why.
type Status struct {
	Healthy bool
	// Reason is empty for a healthy GPU.
	Reason string
}

// View is the health of all GPUs at one moment. What it does not name is
// healthy. It is never changed after it has been returned.
type View struct {
	GPUs map[gpu.UUID]Status
	// Instances has the instances of GPUs that are unfit while their GPU is not.
	Instances map[Instance]Status
}

// Instance is a GPU instance, or one compute instance of it.
type Instance struct {
	GPU gpu.UUID
	// GPUInstance is the id of the GPU instance.
	GPUInstance uint32
	// ComputeInstance is gpu.NoInstance for the whole GPU instance.
	ComputeInstance uint32
}

// Of returns the status of one GPU as a whole. That of its instances is not
// part of it.
func (v View) Of(id gpu.UUID) Status {
	if s, ok := v.GPUs[id]; ok {
		return s
	}
	return Status{Healthy: true}
}

// OfMIG returns the status of a MIG device of a GPU: that of the first of GPU,
// GPU instance and compute instance which is unfit.
func (v View) OfMIG(id gpu.UUID, d gpu.MIGDevice) Status {
	if s := v.Of(id); !s.Healthy {
		return s
	}
	for _, ci := range []uint32{gpu.NoInstance, d.ComputeInstance} {
		if s, ok := v.Instances[Instance{GPU: id, GPUInstance: d.GPUInstance, ComputeInstance: ci}]; ok {
			return s
		}
	}
	return Status{Healthy: true}
}

// kind is one way in which a GPU can be unfit; a GPU may be unfit in several.
// They are listed in the order in which reasons are told.
type kind int

const (
	// kindFault holds from one snapshot to the next: the GPU does not answer.
	kindFault kind = iota
	// kindLost holds from the event to the next snapshot in which it answers.
	kindLost
	// kindXID holds until Reset.
	kindXID
)

type causes map[kind]string

// Machine is the health of the GPUs of one node. It is not safe for concurrent
// use: one goroutine owns it and hands out Views.
type Machine struct {
	rules Rules
	// driver is why no GPU can be used, empty while the driver answers.
	driver string
	// hang is why no GPU can be used, empty while the driver does not hang.
	hang string
	// known are the GPUs that were ever seen.
	known  map[gpu.UUID]bool
	causes map[gpu.UUID]causes
}

// New returns a Machine in which every GPU is healthy.
func New(rules Rules) *Machine {
	return &Machine{rules: rules, known: map[gpu.UUID]bool{}, causes: map[gpu.UUID]causes{}}
}

// Observe takes in a snapshot: a GPU with a fault, or one that is not there
// any more, is unfit until a later snapshot shows it sound.
func (m *Machine) Observe(n *gpu.Node) {
	m.driver = ""
	for id := range m.known {
		m.set(id, kindFault, "gpu is gone from the node")
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.UUID == "" {
			continue
		}
		m.known[g.UUID] = true
		m.clear(g.UUID, kindFault)
		if g.Fault != nil {
			m.set(g.UUID, kindFault, g.Fault.Error())
			continue
		}
		m.clear(g.UUID, kindLost)
	}
}

// DriverGone makes every GPU unfit until the next snapshot.
func (m *Machine) DriverGone(reason string) { m.driver = reason }

// Hangs makes every GPU unfit, whatever else is observed, until it is called
// with an empty reason.
func (m *Machine) Hangs(reason string) { m.hang = reason }

// Apply takes in an event. An event that names no GPU concerns all of them.
// It returns whether the event counts against a GPU.
func (m *Machine) Apply(ev gpu.Event) bool {
	var (
		k      kind
		reason string
	)
	switch {
	case ev.Kind == gpu.EventXID && m.rules.Counts(ev.XID):
		k, reason = kindXID, fmt.Sprintf("xid %d", ev.XID)
	case ev.Kind == gpu.EventLost:
		k, reason = kindLost, "gpu is lost"
	default:
		return false
	}
	if ev.GPU != "" {
		m.set(ev.GPU, k, reason)
		return true
	}
	for id := range m.known {
		m.set(id, k, reason)
	}
	return len(m.known) > 0
}

// Reset forgets every cause that only an event brought; faults stay until the
// next snapshot.
func (m *Machine) Reset() {
	for id := range m.causes {
		m.clear(id, kindLost)
		m.clear(id, kindXID)
	}
}

// View returns the health of all GPUs as it is now.
func (m *Machine) View() View {
	v := View{GPUs: make(map[gpu.UUID]Status, len(m.causes))}
	for id, cs := range m.causes {
		v.GPUs[id] = Status{Reason: cs.reason()}
	}
	if all := cmp.Or(m.hang, m.driver); all != "" {
		for id := range m.known {
			v.GPUs[id] = Status{Reason: all}
		}
	}
	return v
}

func (m *Machine) set(id gpu.UUID, k kind, reason string) {
	cs := m.causes[id]
	if cs == nil {
		cs = causes{}
		m.causes[id] = cs
	}
	// The first XID is the cause, later ones often only follow from it.
	if _, ok := cs[k]; ok && k == kindXID {
		return
	}
	cs[k] = reason
}

func (m *Machine) clear(id gpu.UUID, k kind) {
	delete(m.causes[id], k)
	if len(m.causes[id]) == 0 {
		delete(m.causes, id)
	}
}

func (c causes) reason() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c)) {
		out = append(out, c[k])
	}
	return strings.Join(out, "; ")
}
