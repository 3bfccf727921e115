package manager

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/mig"
)

// Observation is all that Next looks at.
type Observation struct {
	Node   Node
	Wanted string
	// Settled is the config that this process has last found in effect, empty for none.
	Settled string
	// Failed is the config of which this process has published last that it failed, empty for none.
	Failed string
	// Driver is why the GPUs cannot be read.
	Driver error
	// Reloaded is set if the driver is another one, or was loaded again, since the fact mig-ready was written.
	Reloaded bool
	// Refused is why what is wanted cannot be: the config has no such name, or it does not fit
	// the GPUs.
	Refused error
	// Lacking is why what is wanted cannot be on some GPUs, such as one that does not answer.
	Lacking error
	// Request is made of the config, and Plan of Request.
	Request apply.Request
	Plan    apply.Plan
	// Users are the holders that are in the way of Plan. Plan.Unknown says why not all are known.
	Users []mig.Holder
	// Attempt is the last one to make the same change.
	Attempt Attempt
	Options Options
}

// Options are those of the flags.
type Options struct {
	Policy Policy
	// Cordon makes the node unschedulable while a change waits for pods.
	Cordon bool
	// Reboot is set if the agent may reboot the host.
	Reboot bool
	// RebootPause is the time between two attempts while only a reboot completes the change: to tell
	// the host again, or to reset the GPUs again, for which all agents close the driver.
	RebootPause time.Duration
	// Poll is how often the users of a GPU are looked for while a change waits for them.
	Poll time.Duration
}

// cordons reports whether a change that waits for pods keeps the node cordoned.
func (o Options) cordons() bool {
	return o.Policy == EvictPods || o.Policy == WaitForPods && o.Cordon
}

// claimed reports whether another agent has claimed NVML. That says nothing about the layouts.
func (o Observation) claimed() bool { return errors.Is(o.Driver, contract.ErrClaimed) }

// unsure reports whether the layouts may be gone that the fact mig-ready is about.
func (o Observation) unsure() bool { return o.Reloaded || o.Driver != nil && !o.claimed() }

// Node is what is read of the Node.
type Node struct {
	// Known is set once the API server has answered.
	Known bool
	// Config is the value of ConfigLabel, and State that of StateLabel.
	Config string
	State  State
	Cause  string
	// Unschedulable is set while the node is cordoned, and Cordoned if this agent did it.
	Unschedulable, Cordoned bool
}

// isSystemPod reports whether h is a pod of the cluster itself, which is not evicted: see the admission
// policy of the chart.
func isSystemPod(h mig.Holder) bool { return h.Pod.Namespace == "kube-system" }

// describeUser returns the name of a user, and the device that it uses.
func describeUser(h mig.Holder) string {
	who := fmt.Sprintf("process %d", h.PID)
	switch {
	case h.Pod.Name != "":
		who = "pod " + h.Pod.Namespace + "/" + h.Pod.Name
		switch {
		case isSystemPod(h):
			who += ", which is of the cluster itself and not evicted (delete it by hand),"
		case h.Stays:
			who += ", which no eviction keeps away (remove its DaemonSet or static manifest from the node),"
		}
	case h.Owner.Unit != "":
		who = fmt.Sprintf("process %d of %s", h.PID, h.Owner.Unit)
	}
	return fmt.Sprintf("%s with %s of GPU %d", who, cmp.Or(h.Device, "all"), h.GPU)
}

// Attempt is the last attempt to make a change; the zero value if there was none.
type Attempt struct {
	// Err is why it failed.
	Err error
	// Users are those that the attempt found, who were not known before.
	Users []mig.Holder
	// Reboot is set if only a reboot of the host completes it.
	Reboot bool
	// Refused is why the host could not be told to reboot.
	Refused error
	// Rebooting is set if the host was told to reboot for it, Overdue if it has not within
	// rebootLimit, and Rebooted once it has.
	Rebooting, Overdue, Rebooted bool
	// Wait is how long to wait before the next one.
	Wait time.Duration
}
