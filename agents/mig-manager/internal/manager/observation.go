package manager

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// Observation is the input of Next.
type Observation struct {
	Node   Node
	Wanted string
	// Settled is the config that this process last found in effect, or "".
	Settled string
	// Failed is the config of the last published state Failed, or "".
	Failed string
	// Driver is the reason why the GPUs cannot be read.
	Driver error
	// Reloaded is set if the driver was loaded again since the fact mig-ready was written.
	Reloaded bool
	// Refused is the reason why the config is not possible: no config has the name, or it does not
	// fit the GPUs.
	Refused error
	// Lacking is the reason why the config is not possible on some GPUs, such as a GPU that does
	// not answer.
	Lacking error
	// Request is the request for the config, and Plan the plan for Request.
	Request apply.Request
	Plan    apply.Plan
	// Users are the holders that prevent Plan. Plan.Unknown says why they may be incomplete.
	Users []mig.Holder
	// PausedFor is the time since the DaemonSets were paused. Stuck has the users of the same change that an earlier
	// pause has not removed.
	PausedFor time.Duration
	Stuck     []procowner.Pod
	// Attempt is the last attempt to make the same change.
	Attempt Attempt
	Options Options
}

// Options holds the options in the flags.
type Options struct {
	Policy Policy
	// Cordon makes the node unschedulable while a change waits for pods.
	Cordon bool
	// Reboot is set if the agent may reboot the host.
	Reboot bool
	// RebootPause is the delay between attempts if only a reboot completes the change. An attempt
	// tells the host to reboot again, or resets the GPUs again, so that all agents have to close the
	// driver.
	RebootPause time.Duration
	// Poll is the time between observations of the users of a GPU while a change waits for them.
	Poll time.Duration
}

// cordons reports whether a change that waits for pods keeps the node cordoned.
func (o Options) cordons() bool {
	return o.Policy == EvictPods || o.Policy == WaitForPods && o.Cordon
}

// claimed reports whether another agent has claimed NVML. A claim does not change the layouts.
func (o Observation) claimed() bool { return errors.Is(o.Driver, contract.ErrClaimed) }

// unsure reports whether the GPUs may have lost the layouts that the fact mig-ready reports.
func (o Observation) unsure() bool { return o.Reloaded || o.Driver != nil && !o.claimed() }

// Node has the fields of the Node that Next needs.
type Node struct {
	// Known is set after the first response of the API server.
	Known bool
	// Config is the value of ConfigLabel, and State the value of StateLabel.
	Config string
	State  State
	Cause  string
	// Unschedulable is set while the node is cordoned, and Cordoned if this agent has cordoned it.
	Unschedulable, Cordoned bool
	// Pausable is set if a pause would change labels of the Node, and Paused if this agent has paused labels.
	Pausable, Paused bool
}

// isSystemPod reports whether h is a pod in kube-system. The admission policy of the chart does not
// allow the agent to evict these pods.
func isSystemPod(h mig.Holder) bool { return h.Pod.Namespace == "kube-system" }

// describeUser names a user and the device that it uses.
func describeUser(h mig.Holder) string {
	who := fmt.Sprintf("process %d", h.PID)
	switch {
	case h.Pod.Name != "":
		who = "pod " + h.Pod.Namespace + "/" + h.Pod.Name
		switch {
		case isSystemPod(h):
			who += ", which is in kube-system and is not evicted (delete it by hand),"
		case h.Stays:
			who += ", which comes back after an eviction (remove its DaemonSet or static manifest from the node),"
		}
	case h.Owner.Unit != "":
		who = fmt.Sprintf("process %d of %s", h.PID, h.Owner.Unit)
	}
	return fmt.Sprintf("%s with %s of GPU %d", who, cmp.Or(h.Device, "all"), h.GPU)
}

// Attempt is the last attempt to make a change. Without one, it is zero.
type Attempt struct {
	// Err is the reason why the attempt failed.
	Err error
	// Users are the users that only the attempt found.
	Users []mig.Holder
	// Reboot is set if only a reboot of the host completes the change.
	Reboot bool
	// Refused is the reason why the host could not be told to reboot.
	Refused error
	// Rebooting is set if the host was told to reboot, Overdue if it has not rebooted within
	// rebootLimit, and Rebooted after the reboot.
	Rebooting, Overdue, Rebooted bool
	// Wait is the delay before the next attempt.
	Wait time.Duration
}
