package health

import (
	"cmp"
	"slices"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// Finding is a fault of a GPU or of a part of it.
type Finding struct {
	Class    Class
	Severity Severity
	Kind     cause.Code
	// XID is the code of a fault that an XID reported.
	XID uint64
	// Text describes the fault. Fix says how to end it, and is empty if Text says so.
	Text, Fix string
}

// reason returns the text with the fix.
func (f Finding) reason() string {
	if f.Fix == "" {
		return f.Text
	}
	return f.Text + ": " + f.Fix
}

// Lasting returns the faults in the lasting state of a GPU that works: the recovery that its driver
// asks for, its memory and its fabric. It depends only on one snapshot, so that all agents return the
// same, also after a restart. It leaves out ignored faults.
func Lasting(g *gpu.GPU, rules Rules) []Finding {
	var out []Finding
	add := func(name Class, severity Severity, text string) {
		i := slices.IndexFunc(classes(), func(c class) bool { return c.name == name })
		if severity == Ignored || i < 0 {
			return
		}
		c := classes()[i]
		out = append(out, Finding{Class: name, Severity: severity, Kind: c.kind, Text: cmp.Or(text, c.text), Fix: c.fix})
	}
	if c, ok := ofRecovery(g.Recovery); ok {
		text := ""
		if !slices.Contains(knownRecoveries(), g.Recovery) {
			text = "the driver asks for the recovery action " + string(g.Recovery)
		}
		add(c, rules.ofRecovery(c), text)
	}
	for _, f := range g.MemoryFaults {
		add(Class(f), rules.severity(Class(f)), "")
	}
	if c, ok := ofFabric(g.Fabric); ok {
		text := ""
		if c == FabricFailed {
			text = "the GPU could not join its NVLink fabric (" + g.Fabric.Status + ")"
		}
		add(c, rules.severity(c), text)
	}
	return out
}

// fails reports whether one of the findings makes a GPU unhealthy.
func fails(found []Finding) bool {
	for _, f := range found {
		if f.Severity == Failure {
			return true
		}
	}
	return false
}
