package upgrade

import (
	"cmp"
	"fmt"
	"strings"

	"outrigger.dev/pkg/cause"
)

// maxAttempts is the number of attempts to swap or roll back the driver.
const maxAttempts = 3

// Observation has the observed inputs of Next.
type Observation struct {
	// Target is the desired driver, and Loaded the loaded one; empty for none. They are equal if the node
	// needs no upgrade.
	Target, Loaded string
	Node           Node
	// Waiting has the reasons why the node has no grant.
	Waiting Waiting
}

// Node has the fields of the Node that Next needs.
type Node struct {
	Unschedulable bool
	// Cordoned is set if this agent cordoned the node, see CordonedAnnotation.
	Cordoned bool
	// Pausable is set if a pause would change labels of the Node, and Paused if this agent has paused labels, see
	// PausedAnnotation.
	Pausable, Paused bool
	// Skip is the value of SkipLabel, and Requested the value of RequestedAnnotation.
	Skip, Requested bool
	// Granted is the value of GrantAnnotation.
	Granted string
}

// Kind is the kind of an Action.
type Kind string

// The kinds of actions.
const (
	// Wait does nothing until the observation changes.
	Wait Kind = "wait"
	// Move only changes the state.
	Move Kind = "move"

	Cordon   Kind = "cordon"
	Uncordon Kind = "uncordon"
	// Pause keeps DaemonSets that hold the driver off the node. Resume lets them return.
	Pause       Kind = "pause"
	Resume      Kind = "resume"
	WaitForJobs Kind = "wait-for-jobs"
	EvictPods   Kind = "evict-gpu-pods"
	DrainNode   Kind = "drain"
	Swap        Kind = "swap"
	Validate    Kind = "validate"
	RollBack    Kind = "roll-back"
)

// Action is the next thing to do.
type Action struct {
	Kind Kind
	// To is the new state of a Move.
	To State
	// Cause is the reason why a Wait waits, or why a Move goes to a failed state.
	Cause *cause.Cause
}

// Next derives the next action. It is pure.
func Next(j Journal, o Observation, p Policy) Action {
	switch {
	case j.State.resting():
		return nextAtRest(j, o, p)
	case j.State == Required:
		return nextInQueue(j, o, p)
	case j.State.beforeSwap():
		return nextBeforeSwap(j, o, p)
	default:
		return nextInChange(j, o)
	}
}

// nextAtRest handles the states without a running upgrade.
func nextAtRest(j Journal, o Observation, p Policy) Action {
	switch {
	case o.Node.Cordoned, o.Node.Paused:
		return Action{Kind: Move, To: Yielding} // cordoned or paused by a process that lost its journal
	case j.State == Failed && repaired(j, o):
		return Action{Kind: Move, To: Done}
	case !desired(j, o, p), j.State == Failed && j.Target == o.Target && !o.Node.Requested:
		return Action{Kind: Wait, Cause: j.Cause}
	default:
		return Action{Kind: Move, To: Required}
	}
}

// repaired reports whether the desired driver was loaded after the failure. A driver that stayed
// loaded after a failure does not count, unless the upgrade is requested again.
func repaired(j Journal, o Observation) bool {
	return o.Target != "" && o.Loaded == o.Target && (!j.Broken || o.Node.Requested)
}

// desired reports whether the node should be upgraded. The loader loads the desired driver on a node
// without a driver, which needs no upgrade.
func desired(j Journal, o Observation, p Policy) bool {
	asked := p.AutoUpgrade || o.Node.Requested || j.Requested
	return o.Target != "" && o.Loaded != "" && o.Loaded != o.Target && !o.Node.Skip && asked
}

// nextInQueue handles a node that waits for a grant.
func nextInQueue(j Journal, o Observation, p Policy) Action {
	switch {
	case !desired(j, o, p):
		return Action{Kind: Move, To: Idle}
	case j.Target != o.Target:
		return Action{Kind: Move, To: Required} // the Node must show the new target
	case o.Node.Granted == o.Target:
		return Action{Kind: Move, To: Cordoning}
	case p.SkipCordoned && o.Node.Unschedulable && !o.Node.Cordoned:
		return Action{Kind: Wait, Cause: &cause.Cause{
			Code: cause.WaitingForUpgradeSlot, Subject: "upgrade to driver " + o.Target,
			Text: "waits, because the node is cordoned, and skipCordoned of the upgrade policy is true", Fix: "run kubectl uncordon, or set skipCordoned to false",
		}}
	}
	subject := "upgrade to driver " + o.Target
	if failed := o.Waiting.Halted[o.Target]; len(failed) > 0 && !o.Node.Requested {
		return Action{Kind: Wait, Cause: &cause.Cause{
			Code: cause.UpgradeHalted, Subject: subject,
			Text: fmt.Sprintf("halted, because it failed on %s (maxFailures is %d)", strings.Join(failed, ", "), p.MaxFailures),
			Fix:  "read the annotation " + CauseAnnotation + " of these nodes; to try again, set another driver version, or the annotation " + RequestedAnnotation + "=true on one of these nodes",
		}}
	}
	return Action{Kind: Wait, Cause: &cause.Cause{
		Code: cause.WaitingForUpgradeSlot, Subject: subject, Text: cmp.Or(o.Waiting.For, "waits for the annotation "+GrantAnnotation),
	}}
}

// nextBeforeSwap handles an upgrade that has not changed the driver yet.
func nextBeforeSwap(j Journal, o Observation, p Policy) Action {
	switch {
	case o.Node.Granted != o.Target, o.Target == "", o.Target == o.Loaded, o.Node.Skip:
		return Action{Kind: Move, To: Yielding}
	case !o.Node.Unschedulable:
		return Action{Kind: Cordon} // at first, and after another user has uncordoned it
	}
	switch {
	case j.State == WaitingJobs, j.State == Cordoning: // the wait for jobs can take days
	case o.Node.Pausable:
		return Action{Kind: Pause}
	}
	switch j.State {
	case Cordoning:
		return Action{Kind: Move, To: WaitingJobs}
	case WaitingJobs:
		if p.WaitForCompletion.PodSelector == "" {
			return Action{Kind: Move, To: DeletingPod}
		}
		return Action{Kind: WaitForJobs}
	case DeletingPod:
		return Action{Kind: EvictPods}
	default:
		return Action{Kind: DrainNode}
	}
}

// nextInChange handles the change of the driver, and the end of an upgrade.
func nextInChange(j Journal, o Observation) Action {
	interrupted := cause.Cause{
		Code: cause.UpgradeInterrupted, Subject: "upgrade to driver " + j.Target,
		Text: fmt.Sprintf("the agent stopped %d times during the change of the driver", j.Attempts),
		Fix:  "read the log of the agent's previous container (kubectl logs --previous), and the kernel log",
	}
	switch j.State {
	case Swapping:
		switch {
		case o.Node.Granted != j.Target, o.Target != j.Target:
			return Action{Kind: Move, To: RollingBackToYield}
		case j.Attempts >= maxAttempts:
			return Action{Kind: Move, To: RollingBack, Cause: &interrupted}
		}
		return Action{Kind: Swap}
	case Validating:
		switch {
		case o.Loaded != j.Target:
			return Action{Kind: Move, To: Swapping} // the node was rebooted
		case j.Attempts >= maxAttempts:
			return Action{Kind: Move, To: RollingBack, Cause: &interrupted}
		}
		return Action{Kind: Validate}
	case RollingBack, RollingBackToYield:
		if j.Attempts >= maxAttempts {
			interrupted.Text += ", and could not roll it back"
			return Action{Kind: Move, To: Restoring, Cause: cmp.Or(j.Cause, &interrupted)}
		}
		return Action{Kind: RollBack}
	case Restoring:
		return restore(o, Failed)
	case Yielding:
		return restore(o, Required)
	default:
		return restore(o, Done)
	}
}

// restore ends the pause, and makes the node schedulable if this agent cordoned it.
func restore(o Observation, to State) Action {
	switch {
	case o.Node.Paused:
		return Action{Kind: Resume}
	case o.Node.Cordoned:
		return Action{Kind: Uncordon}
	}
	return Action{Kind: Move, To: to}
}
