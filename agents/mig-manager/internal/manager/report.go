package manager

import (
	"errors"
	"fmt"

	"outrigger.dev/pkg/kube"
)

// The reasons of Events.
const (
	ReasonApplied   = "MIGConfigApplied"
	ReasonWaiting   = "MIGConfigWaiting"
	ReasonFailed    = "MIGConfigFailed"
	ReasonRebooting = "MIGConfigRebooting"
)

// event sends an Event of a state that is published after another one, nil if that is not known.
// A wait is one incident, whoever of its users has ended meanwhile.
func (m *Manager) event(was *published, is published) {
	if was == nil && is.State == Success {
		return // as it was when the agent started, or before it had seen the Node
	}
	if was != nil && was.State == is.State && (is.State != Failed && (was.Cause == "") == (is.Cause == "")) {
		return
	}
	ev := kube.Event{Warning: true, Message: fmt.Sprintf("MIG config %s: %s", m.wanted, is.Cause)}
	switch {
	case is.State == Success:
		ev = kube.Event{Reason: ReasonApplied, Message: fmt.Sprintf("MIG config %s is in effect", m.wanted)}
	case is.State == Failed:
		ev.Reason = ReasonFailed
	case is.State == Rebooting:
		ev.Reason = ReasonRebooting
	case is.State == Pending && is.Cause != "":
		ev.Reason = ReasonWaiting
	default:
		return
	}
	m.cfg.Report(ev)
}

// note keeps what metrics and /readyz show.
func (m *Manager) note(o Observation, a Action) {
	m.mu.Lock()
	m.stats.Config, m.stats.Users = o.Wanted, len(a.Users)
	if a.State != "" || a.Clear {
		m.stats.State = a.State
	}
	m.mu.Unlock()
	switch {
	case !o.Node.Known:
		m.ready.Set(errors.New("the API server has not answered yet"))
	case o.Driver != nil:
		m.ready.Set(o.Driver)
	case o.Wanted == "", o.Refused == nil && o.Lacking == nil && o.Change.Empty():
		m.ready.Set(nil)
	case a.Cause != "":
		m.ready.Set(fmt.Errorf("mig config %s is %s: %s", o.Wanted, a.State, a.Cause))
	default:
		m.ready.Set(fmt.Errorf("mig config %s is being applied", o.Wanted))
	}
}

// log logs a state whose cause has changed.
func (m *Manager) log(o Observation, a Action) {
	if m.shown != nil && m.shown.State == a.State && m.shown.Cause == a.Cause || a.State == "" {
		return
	}
	switch a.State {
	case Failed:
		m.cfg.Log.Error("mig config failed", "config", o.Wanted, "cause", a.Cause, "again_in", a.After)
	case Success:
		m.cfg.Log.Info("mig config is in effect", "config", o.Wanted)
	case Pending, Rebooting:
		if a.Cause != "" {
			m.cfg.Log.Warn("mig config waits", "config", o.Wanted, "state", string(a.State), "cause", a.Cause)
		}
	}
}
