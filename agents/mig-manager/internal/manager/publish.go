package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
)

// incident identifies a published state, without details that change often.
type incident struct {
	Config string
	State  State
	About  string
}

// publish publishes the state and its cause. It returns the time after which it must be called again;
// 0 for never.
func (m *Manager) publish(ctx context.Context, o Observation, a Action) (time.Duration, error) {
	if a.State == "" && !a.Clear {
		return 0, nil
	}
	about := incident{Config: o.Wanted, State: a.State, About: a.substance()}
	if m.about != about {
		m.cause = a.Cause
	} // Otherwise, only numbers differ.
	d := nodestate.Desired{Labels: map[string]string{}, Annotations: map[string]string{}}
	if a.State != "" {
		d.Labels[StateLabel] = string(a.State)
	}
	if m.cause != "" {
		d.Annotations[CauseAnnotation] = m.cause
	}
	again, err := m.writer.Put(ctx, d)
	if err != nil {
		return 0, fmt.Errorf("publish the state %q: %w", a.State, err)
	}
	m.about = about
	m.event(o, a)
	return again.After, nil
}

// event sends an Event about the published state. It sends one Event for an incident, even if the
// cause changes or the agent restarts.
func (m *Manager) event(o Observation, a Action) {
	is := incident{Config: o.Wanted, State: a.State}
	if a.State == Failed {
		is.About = a.topic()
	}
	if m.reported == nil {
		m.reported = reportedBefore(o, is)
	}
	if *m.reported == is || a.State == Pending && a.Cause == "" {
		return
	}
	m.reported = &is
	ev := kube.Event{Warning: true, Message: fmt.Sprintf("MIG config %s: %s", o.Wanted, a.Cause)}
	switch a.State {
	case Success:
		ev = kube.Event{Reason: ReasonApplied, Message: fmt.Sprintf("MIG config %s is in effect", o.Wanted)}
	case Failed:
		ev.Reason = string(cause.MIGConfigFailed)
	case Rebooting:
		ev.Reason = string(cause.MIGConfigRebooting)
	case Pending:
		ev.Reason = string(cause.MIGConfigWaiting)
	default:
		return
	}
	m.cfg.Report(ev)
}

// reportedBefore returns the incident that an earlier process has reported, according to the Node.
func reportedBefore(o Observation, is incident) *incident {
	n := o.Node
	switch {
	case n.State == is.State && (n.State != Failed || strings.HasPrefix(n.Cause, is.About)) && (n.State != Pending || n.Cause != ""):
		return &is
	case n.State == "" && is.State == Success:
		return &is // the state when the agent started
	}
	return &incident{State: n.State}
}
