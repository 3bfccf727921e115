package manager

import (
	"context"
	"fmt"
	"strings"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
)

// published is what the Node shows of a state.
type published struct {
	State State
	Cause string
}

// incident is what is published, in substance.
type incident struct {
	Config string
	State  State
	About  string
}

const (
	// writeSeen is the time after which the watch has delivered a write of this agent: if the Node
	// differs from it then, another program has changed it.
	writeSeen = 5 * time.Second
	// rewriteBurst is how often a cause is written again while the config and its state stay, and
	// rewriteEvery how often on. A change can wait for days, for pods that come and go.
	rewriteBurst = 5
	rewriteEvery = 2 * time.Minute
)

// current returns the Node as it is now: until the watch has delivered the last write of this agent,
// the Node shows what this agent wrote.
func (m *Manager) current() Node {
	n := m.node
	if m.shown != nil && m.now().Sub(m.wrote) < writeSeen {
		n.State, n.Cause = m.shown.State, m.shown.Cause
	}
	return n
}

// publish applies the state and its cause, unless the Node has them. It writes again what
// another program has changed.
func (m *Manager) publish(ctx context.Context, o Observation, a Action) error {
	p := published{State: a.State, Cause: a.Cause}
	if p.State == "" && !a.Clear {
		return nil
	}
	is := published{State: o.Node.State, Cause: o.Node.Cause}
	about := incident{Config: o.Wanted, State: a.State, About: a.substance()}
	if is != p {
		if m.keeps(is, about) {
			return nil
		}
		if err := m.write(ctx, p); err != nil {
			m.shown = nil
			return err
		}
		m.wrote = m.now()
	}
	m.shown, m.about = &p, about
	m.event(o, a)
	return nil
}

// keeps reports whether the Node keeps what it shows, although another cause is known: it
// differs by numbers only, or it was written often enough.
func (m *Manager) keeps(is published, about incident) bool {
	if m.shown == nil {
		return false
	}
	if *m.shown == is && m.about == about {
		return true
	}
	return m.about.Config == about.Config && m.about.State == about.State && !m.rewrites.Spend(m.now())
}

// write applies what the Node is to show.
func (m *Manager) write(ctx context.Context, p published) error {
	labels, annotations := map[string]string{}, map[string]string{}
	if p.State != "" {
		labels[StateLabel] = string(p.State)
	}
	if p.Cause != "" {
		annotations[CauseAnnotation] = p.Cause
	}
	node := m.cfg.Client.Node()
	err := m.cfg.Client.Apply(ctx, node, map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": node.Name, "labels": labels, "annotations": annotations},
	})
	if err != nil {
		return fmt.Errorf("publish %q as %s of node %s: %w", p.State, StateLabel, node.Name, err)
	}
	return nil
}

// event sends an Event of what was published, once for an incident: however often its cause
// changes or is written again, and for an agent that starts again.
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

// reportedBefore is what an agent before has reported, by what the Node shows.
func reportedBefore(o Observation, is incident) *incident {
	n := o.Node
	switch {
	case n.State == is.State && (n.State != Failed || strings.HasPrefix(n.Cause, is.About)) && (n.State != Pending || n.Cause != ""):
		return &is
	case n.State == "" && is.State == Success:
		return &is // as it was when the agent started
	}
	return &incident{State: n.State}
}
