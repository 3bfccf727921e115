package upgrade

import (
	"time"

	"outrigger.dev/pkg/cause"
)

// Begin returns the journal to write before an action. It counts attempts of actions whose number is
// limited.
func Begin(j Journal, a Action) Journal {
	switch a.Kind {
	case Swap, Validate, RollBack:
		j.Attempts++
	default:
	}
	return j
}

// Result is the result of an action.
type Result struct {
	// Failed is the reason why the action failed; nil if it succeeded.
	Failed *cause.Cause
	At     time.Time
}

// After returns the journal to write after an action.
func After(j Journal, o Observation, a Action, p Policy, r Result) Journal {
	failed, now := r.Failed, r.At
	if failed != nil && (failed.Code == cause.TemporaryFailure || failed.Code == cause.WaitingForPods) && j.State.beforeSwap() {
		j.Cause = failed
		return j
	}
	switch a.Kind {
	case Move:
		return move(j, o, a.To, a.Cause, now)
	case Wait:
		j.Cause, j.Broken = a.Cause, j.Broken && o.Loaded == o.Target
	case WaitForJobs:
		if failed == nil {
			return move(j, o, DeletingPod, nil, now)
		}
	case EvictPods:
		switch {
		case failed == nil:
			return move(j, o, Swapping, nil, now)
		case p.Drain.Enable:
			return move(j, o, Draining, failed, now)
		}
		return move(j, o, Restoring, failed, now)
	case DrainNode:
		if failed == nil {
			return move(j, o, Swapping, nil, now)
		}
		return move(j, o, Restoring, failed, now)
	case Swap:
		if failed == nil {
			return move(j, o, Validating, nil, now)
		}
		return move(j, o, RollingBack, failed, now)
	case Validate:
		if failed == nil {
			return move(j, o, Uncordoning, nil, now)
		}
		return move(j, o, RollingBack, failed, now)
	case RollBack:
		return rolledBack(j, o, failed, now)
	case Cordon, Uncordon, Pause, Resume:
		// The next observation shows whether it succeeded.
	}
	return j
}

// rolledBack returns the journal to write after a rollback. A failed rollback is repeated. After the last
// attempt, the loader decides which driver is loaded.
func rolledBack(j Journal, o Observation, failed *cause.Cause, now time.Time) Journal {
	switch {
	case failed == nil && j.State == RollingBackToYield:
		return move(j, o, Yielding, nil, now)
	case failed == nil:
		return move(j, o, Restoring, nil, now)
	case j.Attempts < maxAttempts:
		return j
	}
	both := *failed
	if j.Cause != nil {
		both = *j.Cause
		both.Text += "; the rollback to the previous driver failed too: " + failed.Error()
	}
	return move(j, o, Restoring, &both, now)
}

// move changes the state. A cause stays until the next upgrade begins or succeeds.
func move(j Journal, o Observation, to State, why *cause.Cause, now time.Time) Journal {
	j.Untouched = j.State.beforeSwap() && (to == Yielding || to == Restoring)
	j.State, j.Since, j.Attempts = to, now, 0
	if why != nil {
		j.Cause = why
	}
	switch to {
	case Required:
		j.Target, j.Cause, j.Broken = o.Target, nil, false
	case Cordoning:
		j.Requested = o.Node.Requested || j.Requested
		j.Target, j.Previous, j.WasCordoned, j.Cause = o.Target, o.Loaded, o.Node.Unschedulable && !o.Node.Cordoned, nil
	case Swapping:
		j.Target, j.Cause = o.Target, nil
	case Done:
		j.Cause, j.Requested, j.Failed = nil, false, ""
	case Failed:
		j.Broken, j.Requested, j.Failed = o.Loaded == j.Target, false, j.Target
	case Idle:
		failed := j.Failed
		if failed == o.Loaded {
			failed = ""
		}
		j = Journal{State: Idle, Since: now, Failed: failed}
	default:
	}
	return j
}
