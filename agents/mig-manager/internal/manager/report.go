package manager

import (
	"errors"
	"fmt"
)

// ReasonApplied is the reason of the Event for a config that is in effect.
const ReasonApplied = "MIGConfigApplied"

// exportState updates the values for metrics and /readyz.
func (m *Manager) exportState(o Observation, a Action) {
	m.metrics.users.Set(float64(len(a.Users)))
	if a.State != "" || a.Clear {
		m.metrics.setState(a.State)
	}
	switch {
	case !o.Node.Known:
		m.ready.Set(errors.New("the API server has not answered yet"))
	case o.claimed() && !o.Reloaded && o.Settled == o.Wanted && o.Wanted != "":
		// Keep the last value, because the layouts have not changed.
	case o.Driver != nil:
		m.ready.Set(o.Driver)
	case o.Wanted == "", o.Refused == nil && o.Lacking == nil && !o.Plan.Needed():
		m.ready.Set(nil)
	case a.Cause != "":
		m.ready.Set(fmt.Errorf("mig config %s is %s: %s", o.Wanted, a.State, a.Cause))
	default:
		m.ready.Set(fmt.Errorf("mig config %s is being applied", o.Wanted))
	}
}

// logState logs a state if its cause has changed. It does not log changes of the users, which are in
// the cause on the Node.
func (m *Manager) logState(o Observation, a Action) {
	is := incident{Config: o.Wanted, State: a.State, About: a.topic()}
	if a.State == "" || m.logged == is {
		return
	}
	m.logged = is
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
