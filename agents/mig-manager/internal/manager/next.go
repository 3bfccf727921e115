package manager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// Kind is the kind of an Action.
type Kind string

// The kinds of actions.
const (
	// Rest does nothing until something changes.
	Rest Kind = "rest"
	// Settle publishes that the layouts are as desired.
	Settle Kind = "settle"
	// Hold waits for the users of a GPU, or for the next attempt.
	Hold Kind = "hold"
	// Cordon makes the node unschedulable. Uncordon makes it schedulable again.
	Cordon   Kind = "cordon"
	Uncordon Kind = "uncordon"
	// Pause keeps DaemonSets that hold the driver off the node. Resume lets them return.
	Pause  Kind = "pause"
	Resume Kind = "resume"
	// Evict evicts the pods of Users.
	Evict Kind = "evict"
	// Apply changes the layouts.
	Apply Kind = "apply"
	// Reboot reboots the host.
	Reboot Kind = "reboot"
)

// Action is the next action, and the state to publish before it.
type Action struct {
	Kind Kind
	// State and Cause are published. If State is empty, the published state stays, unless Clear removes it.
	State State
	Cause string
	Clear bool
	// Users are the users that the change waits for, and Why is the part of Cause before their list.
	Users []mig.Holder
	Why   string
	// Stuck has the pods of Users that a pause of DaemonSets has not removed.
	Stuck []procowner.Pod
	// After is the time after which the loop observes again if nothing changes, 0 for never.
	After time.Duration
}

// retryDriver is the retry interval for GPUs that cannot be read. Most changes wake the loop earlier.
const retryDriver = 15 * time.Second

// retryClaimed is the time between reads of Config.Loaded while another agent has claimed NVML.
// An unload of the driver does not wake the loop.
const retryClaimed = time.Second

// retryLacking is the retry interval for errors that only a config change or a recovered GPU can fix.
// Most changes wake the loop earlier.
const retryLacking = time.Minute

// Next derives the next action. It does no I/O.
func Next(o Observation) Action {
	a := next(o)
	switch {
	case o.Node.Paused && !o.keepsPause(a):
		a.Kind, a.After = Resume, 0
	// This agent has cordoned the node for a change that is done or not continued.
	case o.Node.Cordoned && !o.keepsCordon(a):
		a.Kind, a.After = Uncordon, 0
	case o.Node.Pausable && a.waitsForDaemonSets():
		a.Kind, a.After = Pause, 0
	}
	return a
}

// keepsCordon reports whether new pods could prevent the change.
func (o Observation) keepsCordon(a Action) bool {
	switch a.Kind {
	case Evict, Apply, Reboot, Cordon:
		return true
	case Hold:
		waits := len(a.Users) > 0 || a.State == Pending && o.Plan.Unknown != nil
		cordons := o.Options.cordons() && (o.Options.Cordon || len(a.Stuck) == 0)
		return a.State == Rebooting || waits && cordons
	case Rest, Settle, Uncordon, Pause, Resume:
	}
	return false
}

func next(o Observation) Action {
	switch {
	case !o.Node.Known:
		return Action{Kind: Rest}
	case o.Wanted == "":
		return Action{Kind: Rest, Clear: true}
	case o.Driver != nil:
		return o.withoutDriver()
	case o.Refused != nil:
		return Action{Kind: Hold, State: Failed, Cause: o.Refused.Error(), After: retryLacking}
	case !o.Plan.Needed() && o.Lacking != nil:
		return Action{Kind: Hold, State: Failed, Cause: o.Lacking.Error(), After: retryLacking}
	case !o.Plan.Needed():
		return Action{Kind: Settle, State: Success}
	case o.Attempt.Reboot && (o.Attempt.Wait > 0 || o.Attempt.Rebooting || o.Options.Reboot && !o.Attempt.Rebooted):
		return o.rebootIfUnused(o.reboot())
	case len(o.Attempt.Users) > 0 && o.Attempt.Wait > 0:
		return o.busy(o.Attempt.Users, o.Attempt.Wait)
	case o.Attempt.Err != nil && o.Attempt.Wait > 0:
		return Action{Kind: Hold, State: Failed, Cause: o.failure(), After: o.Attempt.Wait}
	case o.Plan.Unknown != nil:
		return Action{Kind: Hold, State: Pending, Cause: o.Plan.Unknown.Error(), After: o.Options.Poll}
	case len(o.Users) > 0:
		return o.busy(o.Users, o.Options.Poll)
	case o.Attempt.Err != nil && len(o.Attempt.Users) == 0:
		// The state stays Failed with the same cause until an attempt succeeds.
		return Action{Kind: Apply, State: Failed, Cause: o.failure()}
	case len(o.Attempt.Users) > 0:
		// Only an attempt shows whether these users have ended. Until then, the state says that it
		// waits for them.
		a := o.busy(o.Attempt.Users, 0)
		a.Kind = Apply
		return a
	default:
		return Action{Kind: Apply, State: Pending}
	}
}

// withoutDriver keeps a state that was true before the driver was gone, unless another config is
// desired now. A failure can end with another driver, but not with a claim of NVML.
func (o Observation) withoutDriver() Action {
	a := Action{Kind: Hold, After: retryDriver}
	if o.claimed() {
		a.After = retryClaimed
		if o.Failed == o.Wanted {
			return a
		}
	}
	other := o.Settled != "" && o.Settled != o.Wanted
	if other || o.Node.State != Success && o.Node.State != Rebooting {
		a.State, a.Cause = Pending, o.Driver.Error()
	}
	return a
}

// rebootLimit is the longest time between the request to reboot and the reboot of the host.
const rebootLimit = 10 * time.Minute

// reboot returns the reboot for a change that needs one. The host is rebooted only once for a config.
func (o Observation) reboot() Action {
	t := o.Attempt
	switch {
	case t.Rebooting:
		return Action{Kind: Hold, State: Rebooting, Cause: t.Err.Error(), After: retryLacking}
	case t.Rebooted || !o.Options.Reboot || (t.Overdue || t.Refused != nil) && t.Wait > 0:
		return Action{Kind: Hold, State: Failed, Cause: o.failure(), After: t.Wait}
	case t.Refused != nil:
		return Action{Kind: Reboot, State: Failed, Cause: o.failure()}
	default:
		return Action{Kind: Reboot, State: Rebooting, Cause: t.Err.Error()}
	}
}

// rebootIfUnused returns a reboot unless the GPUs have users. Pods may have started since the
// attempt. With users, it returns the action that waits for them.
func (o Observation) rebootIfUnused(a Action) Action {
	switch {
	case a.Kind != Reboot:
		return a
	case o.Plan.Unknown != nil:
		return Action{Kind: Hold, State: Pending, Cause: o.Plan.Unknown.Error(), After: o.Options.Poll}
	case len(o.Users) > 0:
		return o.busy(o.Users, o.Options.Poll)
	}
	return a
}

// failure returns why the last attempt failed, and the fix. The text is the same before and during
// the next attempt.
func (o Observation) failure() string {
	t := o.Attempt
	switch {
	case !t.Reboot:
	case t.Rebooted:
		return fmt.Sprintf("%s: it did not take effect after a reboot of the host; the agent tries again after %s", t.Err, formatDuration(o.Options.RebootPause))
	case !o.Options.Reboot:
		return fmt.Sprintf("%s: reboot the node, or allow the agent to reboot it (WITH_REBOOT=true); the agent tries again after %s", t.Err, formatDuration(o.Options.RebootPause))
	case t.Refused != nil:
		return fmt.Sprintf("%s: %s", t.Err, t.Refused)
	case t.Overdue:
		return fmt.Sprintf("%s: the host did not reboot within %s: reboot it by hand, or select another config; the agent tries the reboot again after %s", t.Err, formatDuration(rebootLimit), formatDuration(o.Options.RebootPause))
	}
	return t.Err.Error()
}

// formatDuration formats a duration in whole hours or minutes.
func formatDuration(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

// busy returns the action for a change of instances or GPUs in use.
func (o Observation) busy(users []mig.Holder, again time.Duration) Action {
	a := Action{Kind: Hold, State: Pending, Users: users, Stuck: o.stuck(users), After: again}
	if o.Options.Policy == FailOnPods {
		a.State = Failed
		return a.withCause("GPUs or MIG devices that must change are in use")
	}
	a = a.withCause("waiting for the users of GPUs or MIG devices that must change")
	evict := o.Options.Policy == EvictPods && o.evictable(users)
	if (evict || o.Options.Cordon) && !o.Node.Unschedulable {
		a.Kind = Cordon
		return a
	}
	if evict {
		a.Kind = Evict
		return a.withCause("evicting the users of GPUs or MIG devices that must change")
	}
	return a
}

// withCause returns the action with a cause that lists its users.
func (a Action) withCause(why string) Action {
	if len(a.Stuck) > 0 {
		why += fmt.Sprintf(" (a pause of %s has not removed the pods that come back: let their DaemonSets select nvidia.com/gpu.deploy.client=true, or delete them)", formatDuration(pauseLimit))
	}
	a.Why, a.Cause = why, why+": "+describeUsers(a.Users)
	return a
}

// topic returns the cause without the users.
func (a Action) topic() string { return cmp.Or(a.Why, a.Cause) }

// substance returns the cause without details that change often: process IDs, and the order of the users.
func (a Action) substance() string {
	if len(a.Users) == 0 {
		return a.Cause
	}
	var names []string
	for _, u := range a.Users {
		u.PID = 0
		names = append(names, describeUser(u))
	}
	slices.Sort(names)
	return a.Why + ": " + strings.Join(slices.Compact(names), ", ")
}

// maxListed is the largest number of users in a cause.
const maxListed = 8

// describeUsers lists users.
func describeUsers(users []mig.Holder) string {
	var names []string
	for _, u := range users {
		if len(names) == maxListed {
			names = append(names, fmt.Sprintf("and %d more", len(users)-maxListed))
			break
		}
		names = append(names, describeUser(u))
	}
	return strings.Join(names, ", ")
}

// errNeedsReboot is wrapped by the error of an attempt that only a reboot of the host completes.
var errNeedsReboot = errors.New("the change of the MIG mode takes effect after a reboot of the host")
