package health

import (
	"cmp"
	"slices"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// Machine is the state of health of the GPUs of one node. It is not safe for concurrent use: one
// goroutine owns it and passes Views to others.
//
// All times must be from one monotonic clock. A snapshot proves nothing about events after the
// beginning of its reading.
type Machine struct {
	rules Rules
	// driver is the reason why the driver does not answer, empty while it answers.
	driver string
	// hang is the reason why the driver counts as hanging, empty while it does not.
	hang string
	// gpus has every GPU that any event or snapshot has named.
	gpus map[gpu.UUID]*gpuState
}

// New returns a Machine whose GPUs are all healthy.
func New(rules Rules) *Machine {
	return &Machine{rules: rules, gpus: map[gpu.UUID]*gpuState{}}
}

// SetRules replaces the rules. An XID that they ignore has no effect, but counts again with the next
// rules that do not ignore it.
func (m *Machine) SetRules(rules Rules) { m.rules = rules }

// Observe applies a snapshot whose reading began at this time. A GPU or a MIG device that has a
// fault, or that no longer exists, is unhealthy until a later snapshot shows it without a fault.
// Observe also forgets XIDs if the snapshot shows that the GPU needs nothing more because of them.
func (m *Machine) Observe(n *gpu.Node, at time.Time) {
	m.driver = ""
	seen := make(map[gpu.UUID]bool, len(n.GPUs))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.UUID == "" {
			continue
		}
		seen[g.UUID] = true
		m.gpu(g.UUID).observe(g, at, m.rules)
	}
	for id, g := range m.gpus {
		if !seen[id] {
			g.markAbsent()
		}
	}
}

// DriverGone makes every GPU unhealthy until the next snapshot. When the driver returns, it has
// initialized its GPUs anew.
func (m *Machine) DriverGone(reason string) {
	m.driver = reason
	for _, g := range m.gpus {
		g.markSilent()
	}
}

// Hangs makes every GPU unhealthy, independent of other observations, until it is called with an
// empty reason.
func (m *Machine) Hangs(reason string) { m.hang = reason }

// Apply applies an event that was received at this time. An event without a GPU concerns all GPUs.
// Apply reports whether the event counts against a GPU.
func (m *Machine) Apply(ev gpu.Event, at time.Time) bool {
	severity := Ignored
	switch ev.Kind { //nolint:exhaustive // other events are no faults
	case gpu.EventXID:
		severity = m.rules.severityOf(ev.XID)
	case gpu.EventLost:
		severity = Failure
	}
	if severity == Ignored {
		return false
	}
	if ev.GPU != "" {
		m.gpu(ev.GPU).apply(ev, at)
		return severity == Failure
	}
	for _, g := range m.gpus {
		g.apply(ev, at)
	}
	return severity == Failure && len(m.gpus) > 0
}

// NeedsRefresh reports whether an event changes state that only a new snapshot shows.
func NeedsRefresh(ev gpu.Event) bool {
	return ev.Kind != gpu.EventXID || ev.XID == recoveryChanged || marksMemory(ev.XID)
}

// Reset forgets all XIDs and lost GPUs that only an event reported. Faults, and the recovery actions
// that the driver asks for, stay until the next snapshot.
func (m *Machine) Reset() {
	for _, g := range m.gpus {
		g.lost = time.Time{}
		g.causes = map[scope][]incident{}
	}
}

// View returns the current health of all GPUs.
func (m *Machine) View() View {
	v := View{GPUs: map[gpu.UUID]Status{}, Instances: map[Instance]Status{}, Findings: map[gpu.UUID][]Finding{}}
	all := Finding{Class: Unreadable, Severity: Failure, Kind: cause.DeviceHang, Text: m.hang}
	if m.hang == "" {
		all.Kind, all.Text = cause.DeviceDriver, m.driver
	}
	for id, g := range m.gpus {
		found := map[scope][]Finding{wholeGPU(): {all}}
		if all.Text == "" {
			found = g.findings(m.rules)
		}
		for s, list := range found {
			switch st := statusOf(list); {
			case st.Healthy:
			case s == wholeGPU():
				v.GPUs[id] = st
			default:
				v.Instances[Instance{GPU: id, GPUInstance: s.gi, ComputeInstance: s.ci}] = st
			}
			v.Findings[id] = append(v.Findings[id], list...)
		}
		slices.SortFunc(v.Findings[id], func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.XID, b.XID), cmp.Compare(a.Text, b.Text))
		})
	}
	return v
}

// Next returns when to take a snapshot because a GPU may have become healthy without an event, and
// false if no snapshot is needed. The time does not change until the Machine observes a snapshot or
// applies an event.
func (m *Machine) Next() (time.Time, bool) {
	var next time.Time
	if m.driver != "" || m.hang != "" {
		return next, false // the reporter of the failure also reports its end
	}
	for _, g := range m.gpus {
		at, ok := g.next(m.rules)
		if ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, !next.IsZero()
}

func (m *Machine) gpu(id gpu.UUID) *gpuState {
	g := m.gpus[id]
	if g == nil {
		g = newState()
		m.gpus[id] = g
	}
	return g
}
