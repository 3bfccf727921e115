package manager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
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
	// Change is what it takes to get there, as far as possible.
	Change Change
	// Users are those of what Change destroys, or Unknown says why they are not known.
	Users   []User
	Unknown error
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

// Change is what brings the GPUs of a node to their desired layouts. It is empty if they have them.
type Change struct {
	GPUs []GPUChange
	// Holders are the processes that use what goes.
	Holders []User
}

// GPUChange is the change of one GPU.
type GPUChange struct {
	Index int
	UUID  gpu.UUID
	// Mode is set if the MIG mode changes: everything on the GPU goes. Reset is set if that
	// takes a reset.
	Mode, Reset bool
	// Goes are the MIG devices that are destroyed.
	Goes []Device
}

// Device names a MIG device of a GPU by NVML's numbers of its instances.
type Device struct{ GPUInstance, ComputeInstance uint32 }

// Empty reports whether nothing changes.
func (c Change) Empty() bool { return len(c.GPUs) == 0 }

// Destroys reports whether the change destroys anything that can be in use.
func (c Change) Destroys() bool {
	return slices.ContainsFunc(c.GPUs, func(g GPUChange) bool { return g.Mode || len(g.Goes) > 0 })
}

// Resets reports whether a GPU is reset.
func (c Change) Resets() bool {
	return slices.ContainsFunc(c.GPUs, func(g GPUChange) bool { return g.Reset })
}

// User is a container or a process that uses what a change destroys.
type User struct {
	// Namespace, Pod and Container are empty for a process of no pod.
	Namespace, Pod, Container string
	// Stays is set for a pod that comes back after an eviction, also on a cordoned node.
	Stays bool
	// PID is 0 for a container that is known by its allocation.
	PID int
	// Unit is the unit of systemd of a process of no container.
	Unit string
	// GPU is the index of the GPU, and Device the profile of the MIG device, empty for all of
	// the GPU.
	GPU    int
	Device string
}

// system reports whether the user is a pod of the cluster itself, which is not evicted: see the
// admission policy of the chart.
func (u User) system() bool { return u.Pod != "" && u.Namespace == "kube-system" }

// String names the user, and what it uses.
func (u User) String() string {
	who := fmt.Sprintf("process %d", u.PID)
	switch {
	case u.Pod != "":
		who = "pod " + u.Namespace + "/" + u.Pod
		switch {
		case u.system():
			who += ", which is of the cluster itself and not evicted (delete it by hand),"
		case u.Stays:
			who += ", which no eviction keeps away (remove its DaemonSet or static manifest from the node),"
		}
	case u.Unit != "":
		who = fmt.Sprintf("process %d of %s", u.PID, u.Unit)
	}
	return fmt.Sprintf("%s with %s", who, strings.TrimSpace(cmp.Or(u.Device, "all")+fmt.Sprintf(" of GPU %d", u.GPU)))
}

// Attempt is the last attempt to make a change; the zero value if there was none.
type Attempt struct {
	// Err is why it failed.
	Err error
	// Users are those that the driver or the applier found, who were not known before.
	Users []User
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
